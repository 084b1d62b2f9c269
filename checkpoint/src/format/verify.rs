//! The checksums of both parts.

use super::parts::{File, Part};
use crate::checksum::Checksum;
use crate::damage::{FilePart, Mismatch};

/// V1's checksum is the file's: over the file without V2 and other members,
/// and with the checksum zeroed.
pub(super) fn v1_checksum(v1: Option<&[u8]>) -> u64 {
    let sum = Checksum::new().add(br#"{"checksum":0"#);
    match v1 {
        Some(v1) => sum.add(br#","v1":"#).add(v1),
        None => sum,
    }
    .add(b"}")
    .finish()
}

/// V2's is its own: over its text with the checksum zeroed.
pub(super) fn v2_checksum(zeroed: &[u8]) -> u64 {
    Checksum::new().add(zeroed).finish()
}

/// Checks the checksum of V1's text as it is in the file.
pub(super) fn v1_text(file: &File<'_>) -> Result<(), Mismatch> {
    compare(
        FilePart::V1,
        file.get("checksum"),
        v1_checksum(file.v1_text()),
    )
}

/// Checks the checksum of V2's text as it is in the file, whatever fields it
/// has: a newer writer's do not look like damage.
pub(super) fn v2_text(part: &Part<'_>) -> Result<(), Mismatch> {
    let (before, after) = part.around_checksum();
    let zeroed = Checksum::new().add(before).add(b"0").add(after);
    compare(FilePart::V2, part.get("checksum"), zeroed.finish())
}

/// As `v1_text`, of what Go would write for what it read.
pub(super) fn v1_rewritten(file: &File<'_>, v1: &str) -> Result<(), Mismatch> {
    let computed = v1_checksum(Some(v1.as_bytes()));
    compare(FilePart::V1, file.get("checksum"), computed)
}

/// As `v2_text`, of what Go would write for what it read.
pub(super) fn v2_rewritten(part: &Part<'_>, zeroed: &str) -> Result<(), Mismatch> {
    let computed = v2_checksum(zeroed.as_bytes());
    compare(FilePart::V2, part.get("checksum"), computed)
}

/// In Go a missing checksum is 0.
fn compare(part: FilePart, stored: Option<&[u8]>, computed: u64) -> Result<(), Mismatch> {
    let stored = stored.map_or(Some(0), |text| serde_json::from_slice(text).ok());
    if stored == Some(computed) {
        return Ok(());
    }
    Err(Mismatch {
        part,
        stored,
        computed,
    })
}
