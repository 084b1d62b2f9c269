//! What is wrong with a file, and where, for messages.

use super::super::claim;
use super::super::parts::{File, Part};
use super::super::template::Misplaced;
use crate::damage::{DamageReason, Detail};

/// Why a file or a part cannot be read, or not wholly.
pub(super) struct Flaw {
    pub(super) reason: DamageReason,
    /// The first place at which that is so.
    pub(super) detail: Option<Box<Detail>>,
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
    pub(super) fn in_record(uid: String, flaw: claim::Flaw) -> Self {
        let (reason, detail) = flaw.into_detail(uid);
        Self {
            reason,
            detail: Some(Box::new(detail)),
        }
    }

    /// In a member of the file, or of a part: `v2.nodeBootID`.
    pub(super) fn in_member(path: impl Into<String>, flaw: impl Into<String>) -> Self {
        let (path, flaw) = (path.into(), flaw.into());
        Self {
            reason: DamageReason::Layout,
            detail: Some(Box::new(Detail::Member { path, flaw })),
        }
    }

    pub(super) fn in_file(flaw: &str) -> Self {
        Self::in_member("", flaw)
    }

    pub(super) fn misplaced(part: Option<&str>, misplaced: &Misplaced) -> Self {
        let name = &misplaced.name;
        let path = part.map_or_else(|| name.clone(), |part| format!("{part}.{name}"));
        Self::in_member(path, misplaced.flaw())
    }

    /// Why V1 cannot be trusted: its checksum does not match, unless there is
    /// no V1, or no checksum, or the members of the file have a flaw.
    pub(super) fn in_v1(file: &File<'_>, members: Option<Self>) -> Self {
        if let Some(flaw) = members {
            return flaw;
        }
        if file.v1_text().is_none() && file.v2_text().is_none() {
            return Self::in_file("it has neither v1 nor v2");
        }
        if file.v1.is_none() {
            return Self::in_member("v1", not_an_object(file.get("v1")));
        }
        let without_checksum = without_checksum("checksum", file.get("checksum"));
        without_checksum.unwrap_or_else(|| DamageReason::V1Checksum.into())
    }

    /// Why there is no V2 although a member of the file looks like it.
    pub(super) fn in_v2(file: &File<'_>) -> Self {
        let flaw = match (file.get("v2"), file.other_part) {
            (None, Some(other)) => {
                let other = String::from_utf8_lossy(other);
                format!("it is not there, and {other} looks like it")
            }
            (v2, _) => not_an_object(v2).to_owned(),
        };
        Self::in_member("v2", flaw)
    }

    /// Why V2 cannot be trusted, whose checksum does not match; `found` is what
    /// else is wrong with it.
    pub(super) fn in_v2_checksum(part: &Part<'_>, found: Option<Self>) -> Self {
        without_checksum("v2.checksum", part.get("checksum")).unwrap_or_else(|| Self {
            reason: DamageReason::V2Checksum,
            detail: found.and_then(|flaw| flaw.detail),
        })
    }
}

fn not_an_object(text: Option<&[u8]>) -> &'static str {
    match text {
        None => "it is not there",
        Some(b"null") => "it is null",
        Some(_) => "it is not an object",
    }
}

/// In Go it is 0 then: hardly a checksum that was ever written.
fn without_checksum(path: &str, text: Option<&[u8]>) -> Option<Flaw> {
    let flaw = match text {
        None => "it is not there",
        Some(b"null") => "it is null",
        Some(text) if serde_json::from_slice::<u64>(text).is_err() => {
            "it is not an unsigned 64-bit number"
        }
        Some(_) => return None,
    };
    Some(Flaw::in_member(path, flaw))
}
