use super::layout::Layout;
use super::records::Records;
use crate::record::{ClaimRecord, State};

/// The content of a checkpoint file, without a store.
///
/// # Unknown fields
///
/// A newer driver may have added fields. Those of the file, of V1 and of V2 stay in
/// their place. Those of a claim stay until its record changes; then the record is
/// written with the Go driver's fields only, because an unknown field may not fit
/// the new content.
///
/// In a file with Go's formatting they stay byte for byte; in any other file they
/// are reformatted as Go would.
///
/// An unknown part (`v3`) has the content of `v1` and `v2` in another form. The
/// first change drops it, because it would contradict them.
#[derive(Debug)]
pub struct Checkpoint<P> {
    pub(crate) records: Records<P>,
    pub(crate) boot_id: Option<String>,
}

// === impl Checkpoint ===

impl<P> Checkpoint<P> {
    /// Iterates over the records by claim UID, in the file's order.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &ClaimRecord<P>)> {
        self.records.iter()
    }

    /// Returns the id of the boot that the records are from, if the file has it.
    pub fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    /// Returns the layout of the file.
    pub fn layout(&self) -> Layout {
        self.records.source().layout
    }

    pub(crate) fn empty() -> Self {
        Self {
            records: Records::new(),
            boot_id: None,
        }
    }

    /// Adds the records, and the boot id, that only `other` has.
    pub(crate) fn add_missing(&mut self, other: Self) {
        self.records.add_missing(other.records);
        self.boot_id = self.boot_id.take().or(other.boot_id);
    }

    /// Adds the aborted records of the second file ([`ABORTED_FILE`](crate::ABORTED_FILE)) if it has
    /// the same boot id. Records of this checkpoint override them.
    // req: CKPT-20, CKPT-15
    pub fn add_aborted<Q>(&mut self, second: &Checkpoint<Q>) {
        if second.boot_id != self.boot_id {
            return;
        }
        for (uid, record) in second.claims() {
            if let (State::Aborted { at }, None) = (&record.state, self.records.get(uid)) {
                let record = ClaimRecord {
                    state: State::Aborted { at: *at },
                    status: record.status.clone(),
                    name: record.name.clone(),
                    namespace: record.namespace.clone(),
                };
                self.records.insert_read(uid.to_owned(), record, None);
            }
        }
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
