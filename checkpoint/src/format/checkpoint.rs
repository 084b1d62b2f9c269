use super::layout::Layout;
use super::records::Records;
use crate::record::ClaimRecord;

/// The content of a checkpoint file, without a store around it.
///
/// # What is carried
/// A newer writer may have added fields. Those of the file, of V1 and V2 stay
/// at their place, and so do those of a claim until its record changes: then it
/// is written with the fields of the Go driver and no others, since what a
/// foreign field says was said of the record as it was.
///
/// Byte for byte where the file is laid out as Go does it; in another layout
/// they are laid out as Go would, or, where a checksum is over that layout,
/// dropped: the README has a table.
///
/// A part that we do not know (`v3`) says the same as `v1` and `v2` in another
/// way: it goes with the first change, or it would contradict them.
#[derive(Debug)]
pub struct Checkpoint<P> {
    pub(crate) records: Records<P>,
    pub(crate) boot_id: Option<String>,
}

// === impl Checkpoint ===

impl<P> Checkpoint<P> {
    /// The records by claim UID, in the file's order.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &ClaimRecord<P>)> {
        self.records.iter()
    }

    /// The boot that the records are of, if the file says it.
    pub fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    /// The layout of the file that it was read from.
    pub fn layout(&self) -> Layout {
        self.records.source().layout
    }

    pub(crate) fn empty() -> Self {
        Self {
            records: Records::new(),
            boot_id: None,
        }
    }

    /// Adds what only `other` has.
    pub(crate) fn add_missing(&mut self, other: Self) {
        self.records.add_missing(other.records);
        self.boot_id = self.boot_id.take().or(other.boot_id);
    }
}

impl<P> Clone for Checkpoint<P> {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            boot_id: self.boot_id.clone(),
        }
    }
}
