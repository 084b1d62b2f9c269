//! The file: both parts, both checksums, in both directions.

mod decode;
mod encode;
mod parts;

use std::sync::Arc;

use crate::damage::{DamageReason, Survivors};
use crate::record::{ClaimRecord, Payload, Records};

/// The content of a checkpoint file, without a store around it.
#[derive(Debug)]
pub struct Checkpoint<P> {
    pub(crate) records: Records<P>,
    pub(crate) boot_id: Option<String>,
}

/// A file that is not, or not wholly, a checkpoint.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint is damaged: {reason}")]
pub struct Damaged<P> {
    /// What is wrong with it.
    pub reason: DamageReason,
    /// How much of it is in `saved`.
    pub survivors: Survivors,
    /// What can be trusted.
    pub saved: Checkpoint<P>,
}

/// A payload that cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("a prepared device cannot be written as JSON")]
pub struct EncodeError(#[source] serde_json::Error);

// === impl Checkpoint ===

impl<P: Payload> Checkpoint<P> {
    /// Reads a file: V2 if it is there, else V1 or the 25.3.0-rc.2 layout, of
    /// which every claim is completed and nameless. Both checksums must match.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged<P>> {
        decode::decode(bytes)
    }

    /// The bytes that Go writes for the same content.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        encode::encode(&self.records, self.boot_id.as_deref()).map_err(EncodeError)
    }
}

impl<P> Checkpoint<P> {
    /// The records by claim UID, in the file's order.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &ClaimRecord<P>)> {
        self.records
            .iter()
            .map(|(uid, record)| (uid.as_str(), Arc::as_ref(record)))
    }

    /// The boot that the records are of, if the file says it.
    pub fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    pub(crate) fn empty() -> Self {
        Self {
            records: Records::new(),
            boot_id: None,
        }
    }

    /// Adds what only `other` has.
    pub(crate) fn add_missing(&mut self, other: Self) {
        for (uid, record) in other.records {
            self.records.entry(uid).or_insert(record);
        }
        self.boot_id = self.boot_id.take().or(other.boot_id);
    }
}

// === impl EncodeError ===

impl EncodeError {
    /// A stable word for metrics and events.
    pub fn code(&self) -> &'static str {
        "checkpoint-not-encodable"
    }
}
