//! Computes and verifies the checksums of both parts.

use super::parts::{File, Part};
use crate::checksum;
use crate::damage::{FilePart, Mismatch};

/// The checksums to write: V1's, which is the file's, and V2's.
pub(super) fn checksums_of(v1: &[&str], v2_zeroed: &[&str]) -> [u64; 2] {
    checksum::compute_both([&covered_by_v1s(Some(v1)), v2_zeroed])
}

/// Verifies the checksums of the texts in the file. Unknown fields of a newer driver are
/// covered, and so are no damage. A missing V1 has a checksum, too; a missing V2 is no damage.
pub(super) fn texts(file: &File<'_>) -> [Result<(), Mismatch>; 2] {
    let v1 = file.part_text("v1").map(|text| [text]);
    let v1 = covered_by_v1s(v1.as_ref().map(<[&str; 1]>::as_slice));
    let zeroed = file.v2.as_ref().map(zeroed);
    let computed = checksum::compute_both([&v1, zeroed.as_deref().unwrap_or_default()]);
    let [v1, v2] = computed;
    let v2 = file.v2.as_ref().map(|part| compare_v2(part, v2));
    [compare_v1(file, v1), v2.unwrap_or(Ok(()))]
}

/// Verifies V1's checksum against the text that Go would write for the same content.
pub(super) fn v1_rewritten(file: &File<'_>, v1: &[&str]) -> Result<(), Mismatch> {
    compare_v1(file, checksum::compute(&covered_by_v1s(Some(v1))))
}

/// Like [`v1_rewritten`], for V2; the text has a zero for the checksum.
pub(super) fn v2_rewritten(part: &Part<'_>, zeroed: &[&str]) -> Result<(), Mismatch> {
    compare_v2(part, checksum::compute(zeroed))
}

/// The text that V1's checksum covers: the file with `v1` only, and the checksum zeroed.
fn covered_by_v1s<'a>(v1: Option<&[&'a str]>) -> Vec<&'a str> {
    let mut covered = vec![r#"{"checksum":0"#];
    if let Some(pieces) = v1 {
        covered.push(r#","v1":"#);
        covered.extend_from_slice(pieces);
    }
    covered.push("}");
    covered
}

/// The text that V2's checksum covers: V2, with the checksum zeroed.
fn zeroed<'a>(part: &Part<'a>) -> Vec<&'a str> {
    let mut zeroed = Vec::with_capacity(4 * part.members.0.len() + 1);
    for member in &part.members.0 {
        let is_checksum = member.key == r#""checksum""#;
        let value = if is_checksum { "0" } else { member.value };
        let bracket_or_comma = if zeroed.is_empty() { "{" } else { "," };
        zeroed.extend([bracket_or_comma, member.key, ":", value]);
    }
    zeroed.push("}");
    zeroed
}

fn compare_v1(file: &File<'_>, computed: u64) -> Result<(), Mismatch> {
    compare(FilePart::V1, file.members.get("checksum"), computed)
}

fn compare_v2(part: &Part<'_>, computed: u64) -> Result<(), Mismatch> {
    compare(FilePart::V2, part.members.get("checksum"), computed)
}

/// As in Go, a checksum that is missing or null is 0.
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
