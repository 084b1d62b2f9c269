//! Finds the objects that a list of a watch no longer has.

use std::borrow::Borrow;
use std::collections::HashSet;

/// The names in the current list, if one is in progress.
#[derive(Debug, Default)]
pub(crate) struct Listing(Option<HashSet<Box<str>>>);

// === impl Listing ===

impl Listing {
    pub(crate) fn begin(&mut self) {
        self.0 = Some(HashSet::new());
    }

    pub(crate) fn add(&mut self, name: &str) {
        if let Some(listed) = &mut self.0 {
            listed.insert(name.into());
        }
    }

    /// The list is complete. Returns the known names that are missing in it.
    pub(crate) fn finish<'a, K: Borrow<str> + Clone + 'a>(
        &mut self,
        known: impl Iterator<Item = &'a K>,
    ) -> Vec<K> {
        let listed = self.0.take();
        let is_gone = |name: &&K| {
            listed
                .as_ref()
                .is_some_and(|it| !it.contains((*name).borrow()))
        };
        known.filter(is_gone).cloned().collect()
    }
}
