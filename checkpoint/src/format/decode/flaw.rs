//! The damage of a file and its place, for messages.

use super::super::claim;
use super::super::parts::{File, Part};
use super::super::template::ForbiddenMember;
use crate::damage::DamageReason;

/// Why a file or part cannot be read completely.
pub(super) struct Flaw {
    pub(super) reason: DamageReason,
    /// The first damaged place.
    pub(super) detail: Option<String>,
}

// === impl Flaw ===

impl From<DamageReason> for Flaw {
    fn from(reason: DamageReason) -> Self {
        Self {
            reason,
            detail: None,
        }
    }
}

impl Flaw {
    pub(super) fn in_record(uid: &str, flaw: &claim::Flaw) -> Self {
        Self {
            reason: flaw.reason(),
            detail: Some(flaw.of(uid)),
        }
    }

    /// A flaw in a member of the file or of a part: `v2.nodeBootID`.
    pub(super) fn in_member(path: &str, flaw: &str) -> Self {
        Self {
            reason: DamageReason::Layout,
            detail: Some(format!("{}: {flaw}", path.escape_debug())),
        }
    }

    /// A misplaced member; `prefix` is empty for the file, `v2.` for its V2.
    pub(super) fn misplaced(prefix: &str, misplaced: &ForbiddenMember) -> Self {
        let path = format!("{prefix}{}", misplaced.name);
        Self::in_member(&path, &misplaced.flaw())
    }

    /// Why V1 cannot be trusted: no V1, no checksum, or a mismatch.
    pub(super) fn in_v1(file: &File<'_>) -> Self {
        if file.part_text("v1").is_none() && file.part_text("v2").is_none() {
            return Self::in_member("the file", "neither v1 nor v2 found");
        }
        if file.v1.is_none() {
            return Self::in_member("v1", not_an_object(file.members.get("v1")));
        }
        let without_checksum = without_checksum("checksum", file.members.get("checksum"));
        without_checksum.unwrap_or_else(|| DamageReason::V1Checksum.into())
    }

    /// Why the file has no V2, although it has a member with its name or content.
    pub(super) fn in_v2(file: &File<'_>) -> Option<Self> {
        let flaw = match (file.part_text("v2"), file.other_part()) {
            (Some(_), _) => not_an_object(file.members.get("v2")).to_owned(),
            (None, Some(other)) => format!("missing, but {other} resembles the key v2"),
            (None, None) => return None,
        };
        Some(Self::in_member("v2", &flaw))
    }

    /// Why V2 with a wrong checksum cannot be trusted; `found` is another flaw in it.
    pub(super) fn in_v2_checksum(part: &Part<'_>, found: Option<Self>) -> Self {
        let stored = part.members.get("checksum");
        without_checksum("v2.checksum", stored).unwrap_or_else(|| Self {
            reason: DamageReason::V2Checksum,
            detail: found.and_then(|flaw| flaw.detail),
        })
    }
}

fn not_an_object(text: Option<&str>) -> &'static str {
    match text {
        None => "missing",
        Some("null") => "null",
        Some(_) => "not an object",
    }
}

/// A flaw if there is no checksum. Go reads it as 0, which no writer ever computes.
fn without_checksum(path: &str, text: Option<&str>) -> Option<Flaw> {
    let flaw = match text {
        None => "missing",
        Some("null") => "null",
        Some(text) if serde_json::from_str::<u64>(text).is_err() => "not an unsigned 64-bit number",
        Some(_) => return None,
    };
    Some(Flaw::in_member(path, flaw))
}
