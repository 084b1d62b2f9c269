//! Reading and writing the file: both parts, both checksums.
//!
//! ```text
//!  bytes ──► verify: each part's checksum, of its text as Go lays it out; ──► claim ──► Records
//!             │ mismatch: of what we would write, as Go does                              │
//!             └─► Damaged, with what the other part has                                   │
//!  bytes ◄── encode: each record's text, in the order of the template ◄───────────────────┘
//! ```

mod checkpoint;
mod claim;
mod decode;
mod encode;
mod error;
mod layout;
mod object;
mod parts;
mod records;
mod template;
mod verify;

pub use self::checkpoint::Checkpoint;
pub use self::error::{Damaged, EncodeError};
pub use self::layout::Layout;
pub(crate) use self::records::Records;
use crate::record::{ClaimRecord, Payload};

// === impl Checkpoint ===

impl<P: Payload> Checkpoint<P> {
    /// Reads a file: V2 if there is one, else V1 or the 25.3.0-rc.2 layout, in
    /// which every claim is completed and without names. Never blocks or panics,
    /// whatever the bytes are.
    ///
    /// # Guarantees
    ///
    /// Both checksums match: those of the text as Go lays it out, or, where someone has
    /// spelled it in another way by hand, those of the text that Go would write. Time and
    /// memory are proportional to the file, whatever is in it.
    ///
    /// # Caveats
    ///
    /// Go accepts a field name in any case, and spelled with escapes. In the
    /// file, its parts and its records such a name is damage here, found before
    /// anything is lost.
    ///
    /// In `P` only the case matters: a field named like one of a struct's, in
    /// another case, is damage; a new name is not, and `P` decides. This needs a
    /// `Deserialize` that gives its fields' names to `deserialize_struct`, as a
    /// derived one does; flattened fields, and untagged or internally tagged
    /// enums, are not checked. [`Payload::from_legacy`] gets its text unchecked,
    /// and calls [`from_go_json`](crate::from_go_json).
    ///
    /// In a status such a field is carried as an unknown one, unchecked.
    ///
    /// Corruption that Go would not notice (in the name of a member that is
    /// null, say) is not noticed here either.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged<P>> {
        decode::decode(bytes)
    }

    /// Returns the bytes that Go writes for the same content, with unknown fields
    /// at their place: those that were read, if Go or this crate wrote them as V2
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
