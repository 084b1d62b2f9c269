//! What is wrong with a file, and where, for messages.

use super::super::claim;
use super::super::parts::{File, Part};
use super::super::template::Misplaced;
use crate::damage::DamageReason;

/// Why a file or a part cannot be read, or not wholly.
pub(super) struct Flaw {
    pub(super) reason: DamageReason,
    /// The first place at which that is so.
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

    /// In a member of the file, or of a part: `v2.nodeBootID`.
    pub(super) fn in_member(path: &str, flaw: &str) -> Self {
        Self {
            reason: DamageReason::Layout,
            detail: Some(format!("{}: {flaw}", path.escape_debug())),
        }
    }

    /// `prefix` is empty for the file, `v2.` for its V2.
    pub(super) fn misplaced(prefix: &str, misplaced: &Misplaced) -> Self {
        let path = format!("{prefix}{}", misplaced.name);
        Self::in_member(&path, &misplaced.flaw())
    }

    /// Why V1 cannot be trusted: its checksum does not match, unless there is
    /// no V1, or no checksum.
    pub(super) fn in_v1(file: &File<'_>) -> Self {
        if file.part_text("v1").is_none() && file.part_text("v2").is_none() {
            return Self::in_member("the file", "it has neither v1 nor v2");
        }
        if file.v1.is_none() {
            return Self::in_member("v1", not_an_object(file.members.get("v1")));
        }
        let without_checksum = without_checksum("checksum", file.members.get("checksum"));
        without_checksum.unwrap_or_else(|| DamageReason::V1Checksum.into())
    }

    /// Why there is no V2 although a member of the file is or looks like it.
    pub(super) fn in_v2(file: &File<'_>) -> Option<Self> {
        let flaw = match (file.part_text("v2"), file.other_part()) {
            (Some(_), _) => not_an_object(file.members.get("v2")).to_owned(),
            (None, Some(other)) => format!("it is not there, and {other} looks like it"),
            (None, None) => return None,
        };
        Some(Self::in_member("v2", &flaw))
    }

    /// Why V2 cannot be trusted, whose checksum does not match; `found` is what
    /// else is wrong with it.
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
        None => "it is not there",
        Some("null") => "it is null",
        Some(_) => "it is not an object",
    }
}

/// In Go it is 0 then: hardly a checksum that was ever written.
fn without_checksum(path: &str, text: Option<&str>) -> Option<Flaw> {
    let flaw = match text {
        None => "it is not there",
        Some("null") => "it is null",
        Some(text) if serde_json::from_str::<u64>(text).is_err() => {
            "it is not an unsigned 64-bit number"
        }
        Some(_) => return None,
    };
    Some(Flaw::in_member(path, flaw))
}
