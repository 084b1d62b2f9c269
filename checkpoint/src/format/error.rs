//! Why a file could not be read, or cannot be written.

use dra_common::Advice;

use super::checkpoint::Checkpoint;
use crate::damage::{DamageReason, Mismatch, Survivors};

/// Why a file is not, or not wholly, a checkpoint; with what can be recovered.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint is damaged: {}", self.description())]
#[non_exhaustive]
pub struct Damaged<P> {
    /// What is wrong with it.
    pub reason: DamageReason,
    /// The first place where it is wrong, for people: the line and column at which it
    /// stops being JSON, the member or the claim. `None` where no single place is to blame.
    pub detail: Option<String>,
    /// The checksums that do not match, V1's first. Empty if none is wrong, or if
    /// a part cannot even be found.
    pub mismatches: Vec<Mismatch>,
    /// How much of it is in `saved`.
    pub survivors: Survivors,
    /// What can be trusted.
    pub saved: Checkpoint<P>,
    /// Whether there is no trusted V2, which has the boot id.
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
        hint = "report it with the log: the Serialize of the driver's payload type fails"
    )]
    Unwritable(#[source] serde_json::Error),
    /// The payload's `Deserialize` refuses what its `Serialize` has written:
    /// if it were written, the next open would find damage.
    #[error("what would be written cannot be read back: {detail}")]
    #[advice(
        code = "checkpoint-not-readable-back",
        hint = "report it with the log: the driver's payload type does not read what it writes (a field that may be left out needs a default; a number must be finite)"
    )]
    Unreadable {
        /// Which claim, and what is wrong with its record.
        detail: String,
    },
}

// === impl Damaged ===

impl<P> Damaged<P> {
    /// Whether the boot id that the file had, if it had any, is lost with the
    /// damage. If not, that of [`saved`](Self::saved) is the file's, and `None`
    /// there means that none was recorded.
    pub fn boot_id_is_lost(&self) -> bool {
        self.boot_id_is_lost
    }

    /// The reason, the place, and the numbers of each checksum that does not match.
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
