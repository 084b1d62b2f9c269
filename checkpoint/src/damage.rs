use std::fmt;

use dra_common::Advice;

/// The mark in the name of a damaged file that was set aside, between the
/// checkpoint's name and the reason: `checkpoint.json.damaged-v2-checksum`.
pub const DAMAGED_MARK: &str = ".damaged-";
/// The mark that replaces [`DAMAGED_MARK`] when the checkpoint is rebuilt.
pub const SETTLED_MARK: &str = ".settled-";

/// Whether claims may be missing from the store.
///
/// A damaged store, unlike an empty one, does not know which devices are held.
/// [`View::records`](crate::View::records), and so every decision that needs all
/// records, fails until the caller has restored the missing claims and called
/// [`mark_rebuilt`](crate::Claims::mark_rebuilt).
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a damaged checkpoint may lack the records of claims that hold devices"]
pub enum Damage {
    /// No claim is missing.
    None,
    /// The checkpoint could not be trusted, now or in an earlier process that
    /// did not rebuild it.
    Damaged {
        /// Why the file was set aside.
        reason: DamageReason,
        /// The damaged file's new name in the checkpoint's directory. The file
        /// is never deleted.
        set_aside_as: String,
    },
}

const NEWER_HINT: &str = "if a newer driver wrote the file, run that version again; otherwise leave the file: the plugin renames it and restores missing claims from the API server";

/// What is wrong with a checkpoint. Its code is also part of the damaged file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Advice)]
#[non_exhaustive]
#[advice(
    hint = "leave the file in place: the plugin renames the file at the next start or commit, and restores missing claims from the API server"
)]
pub enum DamageReason {
    /// The file has no content.
    #[advice(code = "empty")]
    Empty,
    /// The file is not JSON: torn, truncated, or never a checkpoint.
    #[advice(code = "not-json")]
    NotJson,
    /// The file is JSON, but not a checkpoint.
    #[advice(code = "layout", hint = NEWER_HINT)]
    Layout,
    /// The V1 part does not match its checksum.
    #[advice(code = "v1-checksum")]
    V1Checksum,
    /// The V2 part does not match its checksum.
    #[advice(code = "v2-checksum")]
    V2Checksum,
    /// Neither part matches its checksum.
    #[advice(code = "both-checksums")]
    BothChecksums,
    /// A claim is in a state that this version does not know.
    #[advice(code = "unknown-state", hint = NEWER_HINT)]
    UnknownState,
    /// A claim is aborted, and the driver has no aborted records in its checkpoint
    /// ([`Payload::HAS_ABORTED`](crate::Payload::HAS_ABORTED)).
    #[advice(code = "aborted-state")]
    AbortedState,
    /// The checkpoint's name belongs to something other than a file.
    #[advice(
        code = "not-a-file",
        hint = "no action is needed: the plugin renames this path at the next start or commit, and rebuilds the checkpoint from the API server"
    )]
    NotAFile,
    /// Claims have effects but no record: the file was deleted, or replaced by an
    /// older one ([`Claims::note_missing`](crate::Claims::note_missing)).
    #[advice(
        code = "missing",
        hint = "find the program that deletes or restores files in the plugin's kubelet directory; the plugin rebuilds the checkpoint from the API server"
    )]
    Missing,
    /// An earlier process set the file aside for a reason that this version does
    /// not know.
    #[advice(
        code = "unrecorded",
        hint = "keep the renamed file until the plugin has rebuilt the checkpoint from the API server"
    )]
    Unrecorded,
}

/// A checksum that does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// The part that the checksum covers.
    pub part: FilePart,
    /// The checksum in the file; `None` if it is missing (Go reads 0) or not an
    /// unsigned 64-bit number.
    pub stored: Option<u64>,
    /// The checksum of the part's text.
    pub computed: u64,
}

/// A part of the file with its own checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilePart {
    /// `v1`; the file's checksum covers it.
    V1,
    /// `v2`, which contains its own checksum.
    V2,
}

/// How much of a damaged checkpoint could be recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survivors {
    /// Nothing.
    None,
    /// Some claims. If V2's checksum matches, those of V2 that can be read;
    /// otherwise V1's completed claims, without names and boot id.
    Some,
    /// Every claim: the damage is in the redundant V1 or outside both parts.
    All,
}

// === impl Mismatch ===

impl fmt::Display for Mismatch {
    /// `V2 checksum is 17, but the checksum of the content is 42`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            FilePart::V1 => "V1",
            FilePart::V2 => "V2",
        };
        match self.stored {
            Some(stored) => write!(f, "{part} checksum is {stored}")?,
            None => write!(f, "{part} has no checksum")?,
        }
        write!(f, ", but the checksum of the content is {}", self.computed)
    }
}

// === impl DamageReason ===

impl DamageReason {
    const EVERY: [Self; 11] = [
        Self::Empty,
        Self::NotJson,
        Self::Layout,
        Self::V1Checksum,
        Self::V2Checksum,
        Self::BothChecksums,
        Self::UnknownState,
        Self::AbortedState,
        Self::NotAFile,
        Self::Missing,
        Self::Unrecorded,
    ];
}

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the file is empty",
            Self::NotJson => "the file is not JSON",
            Self::Layout => "the file is JSON but not a checkpoint",
            Self::V1Checksum => "the V1 part does not match its checksum",
            Self::V2Checksum => "the V2 part does not match its checksum",
            Self::BothChecksums => "neither part matches its checksum",
            Self::UnknownState => "a claim is in an unknown state",
            Self::AbortedState => {
                "an aborted claim is in the checkpoint of a driver that has none there"
            }
            Self::NotAFile => "the checkpoint is not a regular file",
            Self::Missing => "records of claims are missing",
            Self::Unrecorded => "an earlier process set the file aside",
        })
    }
}

// === names of files set aside ===

/// A free name for the damaged file: `checkpoint.json.damaged-v2-checksum`, from
/// the second on with a number.
pub(crate) fn name_aside(file: &str, code: &str, taken: &[String]) -> String {
    let first = format!("{file}{DAMAGED_MARK}{code}");
    let numbered = (2_u64..).map(|n| format!("{first}-{n}"));
    let is_free = |name: &String| !taken.contains(name) && !taken.contains(&settled_name(name));
    std::iter::once(first.clone())
        .chain(numbered)
        .find(is_free)
        .unwrap_or(first)
}

/// The reason in the name of a damaged file that was set aside; `None` for other
/// files, and after a rebuild.
pub(crate) fn damaged_reason(file: &str, name: &str) -> Option<DamageReason> {
    let word = name.strip_prefix(file)?.strip_prefix(DAMAGED_MARK)?;
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = stem.strip_suffix('-').unwrap_or(word);
    let known = DamageReason::EVERY
        .into_iter()
        .find(|reason| reason.code() == stem);
    Some(known.unwrap_or(DamageReason::Unrecorded))
}

/// The name of a damaged file once the checkpoint is rebuilt.
pub(crate) fn settled_name(name: &str) -> String {
    name.replacen(DAMAGED_MARK, SETTLED_MARK, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "checkpoint.json";

    #[test]
    fn the_reason_can_be_read_back_from_the_name() {
        for reason in DamageReason::EVERY {
            let first = name_aside(FILE, reason.code(), &[]);
            let second = name_aside(FILE, reason.code(), std::slice::from_ref(&first));
            assert_ne!(first, second);
            assert_eq!(damaged_reason(FILE, &first), Some(reason));
            assert_eq!(damaged_reason(FILE, &second), Some(reason));
            assert_eq!(damaged_reason(FILE, &settled_name(&second)), None);
        }
    }

    #[test]
    fn each_hint_says_what_happens_to_the_file() {
        for reason in DamageReason::EVERY {
            assert!(reason.hint().contains("API server"), "{reason}");
            let may_be_newer = matches!(reason, DamageReason::Layout | DamageReason::UnknownState);
            assert_eq!(reason.hint().contains("newer"), may_be_newer, "{reason}");
        }
    }

    #[test]
    fn a_name_is_not_used_again_after_it_was_settled() {
        let code = DamageReason::Empty.code();
        let first = name_aside(FILE, code, &[]);
        assert_ne!(name_aside(FILE, code, &[settled_name(&first)]), first);
    }

    #[test]
    fn an_unknown_reason_of_another_version_is_still_damage() {
        let name = "checkpoint.json.damaged-by-moonlight";
        assert_eq!(damaged_reason(FILE, name), Some(DamageReason::Unrecorded));
        assert_eq!(damaged_reason(FILE, "checkpoint.json"), None);
        assert_eq!(damaged_reason(FILE, "pu.lock"), None);
    }
}
