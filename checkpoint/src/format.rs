//! Reading and writing the file, with both parts and both checksums.
//!
//! ```text
//!  bytes ──► verify: each part's checksum, of its text in Go's layout; ─────► claim ──► Records
//!             │ mismatch: of the text that this crate would write, as in Go               │
//!             └─► Damaged, with the claims of the other part                              │
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
    /// Reads a file: V2 if there is one, otherwise V1 or the 25.3.0-rc.2 layout, in
    /// which every claim is completed and has no names. Never blocks or panics, on
    /// any input.
    ///
    /// # Guarantees
    ///
    /// Both checksums match: those of the text in Go's layout or, if the file was
    /// edited by hand, those of the text that Go would write. Time and memory are
    /// proportional to the file's size.
    ///
    /// # Caveats
    ///
    /// Go accepts a field name in any case, and with escapes. In the file, its parts
    /// and its records, such a name is damage here, so that nothing gets lost.
    ///
    /// In `P` only the case is checked: a name that differs from a struct's field
    /// only in case is damage; `P` decides about new names. This needs a
    /// `Deserialize` that passes its field names to `deserialize_struct`, like a
    /// derived one. Flattened fields and untagged or internally tagged enums are not
    /// checked. [`Payload::from_legacy`] gets its text unchecked, and calls
    /// [`from_go_json`](crate::from_go_json).
    ///
    /// In a status such a field is kept as an unknown field, unchecked.
    ///
    /// Corruption that Go would not notice (for example, in the name of a member
    /// that is null) is not noticed here either.
    ///
    /// # Example
    ///
    /// ```
    /// use dra_checkpoint::Checkpoint;
    /// use serde_json::value::RawValue;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/02-channel-completed.json");
    /// let bytes = std::fs::read(path)?; // /var/lib/kubelet/plugins/gpu.example.com/checkpoint.json
    /// let checkpoint = Checkpoint::<Box<RawValue>>::decode(&bytes)?;
    /// for (uid, record) in checkpoint.claims() {
    ///     let (namespace, name, state) = (&record.namespace, &record.name, record.state.name());
    ///     println!("{namespace}/{name}:{uid} {state}, {} devices", record.devices().len());
    /// }
    /// # assert_eq!(checkpoint.claims().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged<P>> {
        decode::decode(bytes)
    }

    /// Returns the bytes that Go writes for the same content, with unknown fields in
    /// their place. A V2 file of Go or this crate without changes is returned byte
    /// for byte.
    // req: CKPT-19
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        if P::HAS_ABORTED {
            return self.encode_records(&self.records);
        }
        self.encode_records(&self.records.filtered(|_, record| !record.is_aborted()))
    }

    /// The bytes of the second file ([`ABORTED_FILE`](crate::ABORTED_FILE)): while the first one is
    /// replaced, and after that. Empty without aborted records. `before` is the checkpoint before the
    /// commit.
    pub(crate) fn encode_aborted(&self, before: &Self) -> Result<[Vec<u8>; 2], EncodeError> {
        let after = self.records.filtered(|_, record| record.is_aborted());
        // Until the first file has a claim, its aborted record counts.
        let leaves = |uid: &str, record: &ClaimRecord<P>| {
            record.is_aborted() && self.records.get(uid).is_some()
        };
        let mut meanwhile = after.clone();
        meanwhile.add_missing(before.records.filtered(leaves));
        Ok([self.encode_second(meanwhile)?, self.encode_second(after)?])
    }

    fn encode_second(&self, records: Records<P>) -> Result<Vec<u8>, EncodeError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        self.encode_records(&records.without_source())
    }

    fn encode_records(&self, records: &Records<P>) -> Result<Vec<u8>, EncodeError> {
        encode::encode(records, self.boot_id()).map_err(EncodeError::Unwritable)
    }

    /// Encodes the changed records and checks that each can be read back. After
    /// that, `encode` cannot fail. The other records keep their cached JSON.
    pub(crate) fn encode_changed(&self) -> Result<(), EncodeError> {
        self.records.encode_changed(claim::encode_checked)
    }

    /// A copy of a claim's record, to be changed; a payload need not be `Clone`.
    pub(crate) fn copy_record(&self, uid: &str) -> Option<Result<ClaimRecord<P>, EncodeError>> {
        let record = self.records.get(uid)?;
        Some(claim::copy(uid, record))
    }
}
