//! The list of differences from NVIDIA's generator that are on purpose.
//!
//! For each difference there is an entry in `divergences.json` and a rule in `rules` that recognises it by the files of
//! the root. Any other difference is a bug.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The differences, as the file lists them.
pub(crate) struct Table(Vec<Divergence>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Divergence {
    id: String,
    /// Why the crate differs.
    reason: String,
}

// === impl Table ===

impl Table {
    pub(crate) fn read() -> Self {
        Self(serde_json::from_str(include_str!("divergences.json")).unwrap())
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|divergence| divergence.id == id)
    }

    /// Every listed difference was seen.
    pub(crate) fn check(&self, counts: &BTreeMap<String, u64>) {
        for Divergence { id, reason } in &self.0 {
            assert!(reason.len() > 40, "{id} needs a reason");
            assert!(
                counts.contains_key(id),
                "{id} is listed and never seen: take it off the list"
            );
        }
    }
}
