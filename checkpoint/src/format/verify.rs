//! Computing and verifying the checksums of both parts.

use std::iter::once;

use super::parts::{File, Part};
use crate::checksum;
use crate::damage::{FilePart, Mismatch};

/// The checksums to be written: V1's, which is the file's, and V2's.
pub(super) fn checksums_of(v1: &[&str], v2_zeroed: &[&str]) -> (u64, u64) {
    (of_v1(Some(v1)), of_v2(v2_zeroed))
}

/// Verifies V1's checksum of the text in the file, whatever fields it has: those of a newer
/// driver are not damage.
pub(super) fn v1_text(file: &File<'_>) -> Result<(), Mismatch> {
    let v1 = file.part_text("v1").map(|text| [text]);
    let computed = of_v1(v1.as_ref().map(<[&str; 1]>::as_slice));
    compare(FilePart::V1, file.members.get("checksum"), computed)
}

/// As [`v1_text`], of V2.
pub(super) fn v2_text(part: &Part<'_>) -> Result<(), Mismatch> {
    let mut zeroed = Vec::with_capacity(4 * part.members.0.len() + 1);
    for member in &part.members.0 {
        let is_checksum = member.key == r#""checksum""#;
        let value = if is_checksum { "0" } else { member.value };
        let bracket_or_comma = if zeroed.is_empty() { "{" } else { "," };
        zeroed.extend([bracket_or_comma, member.key, ":", value]);
    }
    zeroed.push("}");
    v2_rewritten(part, &zeroed)
}

/// As [`v1_text`], of what Go would write for what it read.
pub(super) fn v1_rewritten(file: &File<'_>, v1: &[&str]) -> Result<(), Mismatch> {
    compare(FilePart::V1, file.members.get("checksum"), of_v1(Some(v1)))
}

/// As [`v1_rewritten`], of V2; its checksum is zeroed in the text.
pub(super) fn v2_rewritten(part: &Part<'_>, zeroed: &[&str]) -> Result<(), Mismatch> {
    compare(FilePart::V2, part.members.get("checksum"), of_v2(zeroed))
}

/// Covers the file without V2 and other members, and with the checksum zeroed.
fn of_v1(v1: Option<&[&str]>) -> u64 {
    let member = v1.map(|pieces| once(r#","v1":"#).chain(pieces.iter().copied()));
    let covered = once(r#"{"checksum":0"#)
        .chain(member.into_iter().flatten())
        .chain(once("}"));
    checksum::compute(covered.map(str::as_bytes))
}

/// Is in V2 and covers V2.
fn of_v2(zeroed: &[&str]) -> u64 {
    checksum::compute(zeroed.iter().map(|piece| piece.as_bytes()))
}

/// In Go a checksum that is missing or null is 0.
fn compare(part: FilePart, stored: Option<&str>, computed: u64) -> Result<(), Mismatch> {
    let stored: serde_json::Result<Option<u64>> = stored.map_or(Ok(None), serde_json::from_str);
    if matches!(stored, Ok(stored) if stored.unwrap_or(0) == computed) {
        return Ok(());
    }
    Err(Mismatch {
        part,
        stored: stored.ok().flatten(),
        computed,
    })
}
