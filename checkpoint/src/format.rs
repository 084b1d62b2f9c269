//! The file: both parts, both checksums, in both directions.
//!
//! ```text
//!  bytes ──► scan ──► verify: checksums of the text as it is ──► claim ──► Records
//!                       │ no: white space dropped; then Go's rule,          │
//!                       │     the checksum of what we would write           │
//!                       └─► Damaged: what the other part has                │
//!  bytes ◄── encode: each record's text, at the place that template says ◄──┘
//! ```

mod checkpoint;
mod claim;
mod decode;
mod encode;
mod error;
mod layout;
mod parts;
mod records;
mod scan;
mod template;
mod verify;

pub use self::checkpoint::Checkpoint;
pub use self::error::{Damaged, EncodeError};
pub use self::layout::Layout;
pub(crate) use self::records::Records;
use crate::record::{ClaimRecord, Payload};

// === impl Checkpoint ===

impl<P: Payload> Checkpoint<P> {
    /// Reads a file: V2 if it is there, else V1 or the 25.3.0-rc.2 layout, of
    /// which every claim is completed and without names.
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

    /// Encodes the records that have changed, all that can fail in `encode`, and
    /// checks that each can be read back. The others keep their cached JSON.
    pub(crate) fn encode_changed(&self) -> Result<(), EncodeError> {
        self.records.encode_changed(claim::encode_checked)
    }

    /// A copy of a claim's record, for changing it: a payload need not be `Clone`.
    pub(crate) fn copy_record(&self, uid: &str) -> Option<Result<ClaimRecord<P>, EncodeError>> {
        let record = self.records.get(uid)?;
        Some(claim::copy(uid, record))
    }
}
