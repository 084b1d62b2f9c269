//! Computing and verifying the checksums of both parts.

use std::iter::once;

use super::parts::{File, Part};
use crate::checksum;
use crate::damage::{FilePart, Mismatch};

/// The checksums to be written: V1's, which is the file's, and V2's.
pub(super) fn checksums_of(v1: &[&str], v2_zeroed: &[&str]) -> (u64, u64) {
    let outer = checksum::compute(covered_by_files(Some(bytes(v1))));
    (outer, checksum::compute(bytes(v2_zeroed)))
}

/// Whether each part's checksum is that of its text.
pub(super) struct Texts {
    pub(super) v1: Result<(), Mismatch>,
    pub(super) v2: Result<(), Mismatch>,
}

/// Verifies the checksums of the text as it is in the file, whatever fields it
/// has: those of a newer driver are not damage.
pub(super) fn texts(file: &File<'_>, v2: &Part<'_>) -> Texts {
    let (before, after) = v2.around_checksum();
    let inner = checksum::compute([before, b"0", after]);
    Texts {
        v1: v1_text(file),
        v2: compare(FilePart::V2, v2.get("checksum"), inner),
    }
}

/// As `texts`, of V1 alone.
pub(super) fn v1_text(file: &File<'_>) -> Result<(), Mismatch> {
    let computed = checksum::compute(covered_by_files(file.v1_text().map(once)));
    compare(FilePart::V1, file.get("checksum"), computed)
}

/// As `v1_text`, of what Go would write for what it read.
pub(super) fn v1_rewritten(file: &File<'_>, v1: &[&str]) -> Result<(), Mismatch> {
    let computed = checksum::compute(covered_by_files(Some(bytes(v1))));
    compare(FilePart::V1, file.get("checksum"), computed)
}

/// As V2's in `texts`, of what Go would write for what it read.
pub(super) fn v2_rewritten(part: &Part<'_>, zeroed: &[&str]) -> Result<(), Mismatch> {
    let computed = checksum::compute(bytes(zeroed));
    compare(FilePart::V2, part.get("checksum"), computed)
}

fn bytes<'a>(pieces: &'a [&'a str]) -> impl Iterator<Item = &'a [u8]> {
    pieces.iter().map(|piece| piece.as_bytes())
}

/// The file without V2 and other members, and with the checksum zeroed. V2's
/// checksum, in contrast, is in V2 and over V2.
fn covered_by_files<'a>(
    v1: Option<impl Iterator<Item = &'a [u8]>>,
) -> impl Iterator<Item = &'a [u8]> {
    let member = v1.map(|text| once(&br#","v1":"#[..]).chain(text));
    once(&br#"{"checksum":0"#[..])
        .chain(member.into_iter().flatten())
        .chain(once(&b"}"[..]))
}

/// In Go a checksum that is missing or null is 0.
fn compare(part: FilePart, stored: Option<&[u8]>, computed: u64) -> Result<(), Mismatch> {
    let stored: serde_json::Result<Option<u64>> = stored.map_or(Ok(None), serde_json::from_slice);
    if matches!(stored, Ok(stored) if stored.unwrap_or(0) == computed) {
        return Ok(());
    }
    Err(Mismatch {
        part,
        stored: stored.ok().flatten(),
        computed,
    })
}
