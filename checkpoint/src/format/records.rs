//! The records, with their text in the file.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::layout::Layout;
use super::parts::{FILE, V1, V2};
use super::template::Template;
use crate::record::ClaimRecord;

/// Records by claim UID, sorted bytewise like the file.
///
/// Each record caches its JSON. An unchanged record is written as it was read,
/// with unknown fields. A changed record loses its cache and is encoded again,
/// with Go's fields only. Clones share the caches.
pub(crate) struct Records<P> {
    slots: BTreeMap<Arc<str>, Arc<Slot<P>>>,
    source: Arc<Source>,
    /// Whether any record differs from the file.
    changed: bool,
}

struct Slot<P> {
    record: Arc<ClaimRecord<P>>,
    /// The text that was read or encoded.
    text: OnceLock<ClaimText>,
}

/// The text of a record in the file: `"UID":{…}`.
#[derive(Debug, Clone)]
pub(super) struct ClaimText {
    /// The text in V1; `None` if the claim is not completed, and so not in V1.
    pub(super) v1: Option<Box<str>>,
    pub(super) v2: Box<str>,
}

/// The rest of the file that the records were read from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) layout: Layout,
    pub(super) boot_id: Option<String>,
    pub(super) file: Template,
    pub(super) v1: Template,
    pub(super) v2: Template,
}

// === impl Records ===

impl<P> Records<P> {
    /// No records, from no file.
    pub(crate) fn new() -> Self {
        Self::read_from(Source::default())
    }

    pub(super) fn read_from(source: Source) -> Self {
        Self {
            slots: BTreeMap::new(),
            source: Arc::new(source),
            changed: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&ClaimRecord<P>> {
        self.slots.get(uid).map(|slot| &*slot.record)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ClaimRecord<P>)> {
        self.slots.iter().map(|(uid, slot)| (&**uid, &*slot.record))
    }

    pub(crate) fn insert(&mut self, uid: &str, record: ClaimRecord<P>) {
        self.slots.insert(uid.into(), Slot::without_text(record));
        self.changed = true;
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        self.changed |= self.slots.remove(uid).is_some();
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &ClaimRecord<P>) -> bool) {
        let before = self.slots.len();
        self.slots.retain(|uid, slot| keep(uid, &slot.record));
        self.changed |= self.slots.len() < before;
    }

    /// The records that `keep` accepts, with their text, from the same file.
    pub(super) fn filtered(&self, keep: impl Fn(&str, &ClaimRecord<P>) -> bool) -> Self {
        let slots = self.slots.iter();
        let kept = slots.filter(|(uid, slot)| keep(uid, &slot.record));
        Self {
            slots: kept
                .map(|(uid, slot)| (Arc::clone(uid), Arc::clone(slot)))
                .collect(),
            source: Arc::clone(&self.source),
            changed: self.changed,
        }
    }

    /// The records, from no file.
    pub(super) fn without_source(self) -> Self {
        Self {
            slots: self.slots,
            ..Self::new()
        }
    }

    /// Adds the records that only `other` has, with their text.
    pub(super) fn add_missing(&mut self, other: Self) {
        if self.slots.is_empty() {
            *self = other;
            return;
        }
        for (uid, slot) in other.slots {
            self.slots.entry(uid).or_insert_with(|| {
                self.changed = true;
                slot
            });
        }
    }

    /// Drops the unknown members of a damaged file: one of them may be a part with
    /// a damaged name.
    pub(super) fn drop_unknown_members(&mut self) {
        Arc::make_mut(&mut self.source).file = Template::canonical(FILE.len());
        self.changed = true;
    }

    /// Adds a record with its text in the file; `None` if it has to be encoded.
    pub(super) fn insert_read(
        &mut self,
        uid: String,
        record: ClaimRecord<P>,
        text: Option<ClaimText>,
    ) {
        let record = Arc::new(record);
        let text = text.map_or_else(OnceLock::new, OnceLock::from);
        let slot = Arc::new(Slot { record, text });
        self.slots.insert(uid.into(), slot);
    }

    /// Returns the text of each record; calls `encode` for those not cached.
    pub(super) fn texts<E>(
        &self,
        encode: impl Fn(&str, &ClaimRecord<P>) -> Result<ClaimText, E>,
    ) -> Result<impl Iterator<Item = &ClaimText>, E> {
        self.encode_changed(encode)?;
        Ok(self.slots.values().filter_map(|slot| slot.text.get()))
    }

    pub(super) fn encode_changed<E>(
        &self,
        encode: impl Fn(&str, &ClaimRecord<P>) -> Result<ClaimText, E>,
    ) -> Result<(), E> {
        for (uid, slot) in &self.slots {
            if slot.text.get().is_none() {
                let new = encode(uid, &slot.record)?;
                slot.text.get_or_init(|| new);
            }
        }
        Ok(())
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Whether any record differs from the source.
    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }
}

impl<P> Clone for Records<P> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            source: Arc::clone(&self.source),
            changed: self.changed,
        }
    }
}

impl<P> Slot<P> {
    fn without_text(record: impl Into<Arc<ClaimRecord<P>>>) -> Arc<Self> {
        Arc::new(Self {
            record: record.into(),
            text: OnceLock::new(),
        })
    }
}

impl<P: std::fmt::Debug> std::fmt::Debug for Records<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

// === impl Source ===

impl Default for Source {
    /// The source of a checkpoint without a file.
    fn default() -> Self {
        Self {
            layout: Layout::V2,
            boot_id: None,
            file: Template::canonical(FILE.len()),
            v1: Template::canonical(V1.len()),
            v2: Template::canonical(V2.len()),
        }
    }
}
