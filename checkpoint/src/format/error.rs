//! Why a file could not be read, or cannot be written.

use dra_common::Advice;

use super::checkpoint::Checkpoint;
use crate::damage::{DamageReason, Mismatch, Survivors};

/// Why a file is not an intact checkpoint, with the records that could be recovered.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint is damaged: {}", self.description())]
#[non_exhaustive]
pub struct Damaged<P> {
    /// The kind of damage.
    pub reason: DamageReason,
    /// The first damaged place, for messages: the line and column of the JSON error, the
    /// member, or the claim. `None` if the damage has no single place.
    pub detail: Option<String>,
    /// The checksums that do not match, V1's first. Empty if all match, or if a part
    /// was not found.
    pub mismatches: Vec<Mismatch>,
    /// How many of the records are in `saved`.
    pub survivors: Survivors,
    /// The trusted records.
    pub saved: Checkpoint<P>,
    /// Whether there is no trusted V2, the part with the boot id.
    pub(crate) boot_id_is_lost: bool,
}

/// Why a claim's record cannot be written.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum EncodeError {
    /// The payload's `Serialize` fails.
    #[error("a prepared device cannot be written as JSON")]
    #[advice(
        code = "checkpoint-not-encodable",
        hint = "this is a bug: the Serialize implementation of the driver's payload type failed; please report it with this log"
    )]
    Unwritable(#[source] serde_json::Error),
    /// The payload's `Deserialize` refuses the output of its `Serialize`. It is not
    /// written, because the next open would find damage.
    #[error("a changed record was not written, because it could not be read back: {detail}")]
    #[advice(
        code = "checkpoint-not-readable-back",
        hint = "this is a bug: the driver's payload type cannot deserialize its own output (optional fields need a default; numbers must be finite); please report it with this log"
    )]
    Unreadable {
        /// The claim, and the error in its record.
        detail: String,
    },
}

// === impl Damaged ===

impl<P> Damaged<P> {
    /// Whether the damage destroyed the file's boot id. If not,
    /// [`saved`](Self::saved) has it, and `None` there means that none was recorded.
    pub fn boot_id_is_lost(&self) -> bool {
        self.boot_id_is_lost
    }

    /// The reason, the place, and each checksum that does not match.
    pub fn description(&self) -> String {
        let mut description = self.reason.to_string();
        let mismatches = self.mismatches.iter().map(ToString::to_string);
        for more in self.detail.iter().cloned().chain(mismatches) {
            description.push_str("; ");
            description.push_str(&more);
        }
        description
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        self.reason.hint()
    }
}
