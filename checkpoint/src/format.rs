//! The file: both parts, both checksums, in both directions.
//!
//! ```text
//!  bytes ──► scan ──► verify: checksums of the text as it is ──► claim ──► Records
//!                       │ no: white space dropped; then Go's rule,          │
//!                       │     the checksum of what we would write           │
//!                       └─► Damaged: what the other part has                │
//!  bytes ◄── encode: each record's text, at the place that template says ◄──┘
//! ```

mod claim;
mod decode;
mod encode;
mod parts;
mod records;
mod scan;
mod template;
mod verify;

use crate::damage::{DamageReason, Detail, Mismatch, Survivors};
use crate::record::{ClaimRecord, Payload};

pub(crate) use self::records::Records;

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

/// The layout that a checkpoint was read from. All are written as [`V2`](Self::V2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// V1 and V2 with a boot id, since 0.4.0; also a checkpoint from no file.
    V2,
    /// V1 and V2 without a boot id, of 25.8 to 25.12.
    V2WithoutBootId,
    /// V1 alone, of 25.3.0 to 25.3.2: every claim is completed and nameless.
    V1,
    /// V1 of 25.3.0-rc.2, which has no claim statuses either.
    V1Rc2,
}

/// A file that is not, or not wholly, a checkpoint.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint is damaged: {reason}{}", in_detail(.detail.as_deref(), .mismatches))]
#[non_exhaustive]
pub struct Damaged<P> {
    /// What is wrong with it.
    pub reason: DamageReason,
    /// Where: the place at which it stops being JSON, the member that is missing
    /// or not a checkpoint's, or the claim that is not understood. Also beside a
    /// checksum that does not match, if something else is wrong in that part.
    /// `None` where no one place is to blame.
    pub detail: Option<Box<Detail>>,
    /// The checksums that do not match, V1's first. Empty if that is not what
    /// is wrong, or if a part cannot even be found.
    pub mismatches: Vec<Mismatch>,
    /// How much of it is in `saved`.
    pub survivors: Survivors,
    /// What can be trusted.
    pub saved: Checkpoint<P>,
    /// Whether no V2 that can be trusted was found, which has the boot id.
    pub(crate) boot_id_is_lost: bool,
}

/// Why a claim's record cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The payload's `Serialize` fails.
    #[error("a prepared device cannot be written as JSON")]
    Unwritable(#[source] serde_json::Error),
    /// The payload's `Deserialize` refuses what its `Serialize` has written:
    /// written all the same, it would be damage to whoever opens the file next.
    #[error("what would be written cannot be read back: {detail}")]
    Unreadable {
        /// Which claim, and what is wrong with its record.
        detail: Detail,
    },
}

// === impl Checkpoint ===

impl<P: Payload> Checkpoint<P> {
    /// Reads a file: V2 if it is there, else V1 or the 25.3.0-rc.2 layout, of
    /// which every claim is completed and nameless.
    ///
    /// # Guarantees
    /// Both checksums match: that of the text as it is, or, where someone has
    /// laid the text out anew by hand, that of what Go makes of it. Takes time
    /// and memory in proportion to the file, whatever is in it.
    ///
    /// # Caveats
    /// Go finds a field in any case of its letters, and spelled with escapes.
    /// Here such a name of the file, its parts or its records is damage, found
    /// before anything is lost.
    ///
    /// So it is inside `P`, where only the case matters: a field that has the
    /// name of one of `P`'s structs in another case is damage; a new name is not,
    /// and is left to `P`. What is asked of `P` is a `Deserialize` that gives its
    /// fields' names to `deserialize_struct`, as a derived one does; what is
    /// flattened, or in an untagged or internally tagged enum, is not looked at.
    /// [`Payload::from_legacy`] gets its text as it is, and does the same with
    /// [`from_go_json`](crate::from_go_json).
    ///
    /// Inside a status, such a name is foreign: carried, and not looked at.
    ///
    /// Harm that Go would not see (in the name of a member that is null, say)
    /// is not seen here either.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged<P>> {
        decode::decode(bytes)
    }

    /// The bytes that Go writes for the same content, and foreign fields where
    /// they were. The same as were read, if Go or this crate wrote them as V2
    /// and nothing has changed.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        encode::encode(&self.records, self.boot_id.as_deref()).map_err(EncodeError::Unwritable)
    }

    /// Makes the texts of the records that have none yet, all that can fail in
    /// `encode`, and sees that each can be read back.
    pub(crate) fn make_texts(&self) -> Result<(), EncodeError> {
        self.records.make_texts(claim::lasting_text)
    }

    /// The record of a claim, for changing it.
    pub(crate) fn copy_of(&self, uid: &str) -> Option<Result<ClaimRecord<P>, EncodeError>> {
        let record = self.records.get(uid)?;
        Some(claim::copy(uid, record))
    }
}

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

// === impl Layout ===

impl Layout {
    /// A stable word for people and scripts.
    pub fn code(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V2WithoutBootId => "v2-without-boot-id",
            Self::V1 => "v1",
            Self::V1Rc2 => "v1-rc.2",
        }
    }
}

// === impl Damaged ===

impl<P> Damaged<P> {
    /// Whether the boot id that the file had, if it had any, is lost with the
    /// damage. If not, that of [`saved`](Self::saved) is the file's, and `None`
    /// there means that none was recorded.
    pub fn boot_id_is_lost(&self) -> bool {
        self.boot_id_is_lost
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        self.reason.hint()
    }
}

/// What is to be said behind the reason.
fn in_detail(detail: Option<&Detail>, mismatches: &[Mismatch]) -> String {
    let detail = detail.map(|detail| format!("; {detail}"));
    let mismatches = mismatches.iter().map(|mismatch| format!("; {mismatch}"));
    detail.into_iter().chain(mismatches).collect()
}

// === impl EncodeError ===

impl EncodeError {
    /// A stable word for metrics and events.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unwritable(_) => "checkpoint-not-encodable",
            Self::Unreadable { .. } => "checkpoint-not-readable-back",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unwritable(_) => {
                "report it with the log: the Serialize of the driver's payload type fails"
            }
            Self::Unreadable { .. } => {
                "report it with the log: the driver's payload type does not read what it writes (a field that may be left out needs a default; a number must be finite)"
            }
        }
    }
}
