//! Kinds that a file may define for other readers, though this reader did not find them.
//!
//! CDI's library in Go reads YAML with `goyaml.v2` up to 1.1.0 and with `yaml.v3` since 1.1.1, and
//! a host may have both: containerd 2.3 the former, NVIDIA's runtime 1.20 the latter. Neither
//! refuses exactly what this reader refuses.

use std::collections::BTreeSet;

use crate::spec::SpecFault;
use crate::{Kind, SpecError};

/// More kinds than any file has; beyond them, the file may define any kind.
const MAX_KINDS: usize = 64;

/// The kinds of devices that a file may define for other readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unread {
    /// None: every reader reads the same.
    Nothing,
    /// The kinds whose names occur in the text.
    Kinds(BTreeSet<Kind>),
    /// Any kind.
    Anything,
}

// === impl Unread ===

impl Unread {
    /// The kinds of a text that is not a valid spec here.
    // req: NRI-21
    pub(super) fn for_refused(text: &[u8], error: &SpecError) -> Self {
        match error.fault() {
            // All readers refuse these, whatever the names are.
            SpecFault::NoDevices
            | SpecFault::VersionTooLow { .. }
            | SpecFault::VersionTooOld { .. } => Self::Nothing,
            // A later version may have its kind elsewhere.
            _ if error.code() == "cdi-version-unknown" => Self::Anything,
            _ => Self::of(text),
        }
    }

    /// The kinds of a text that another reader may read differently.
    ///
    /// The text of a spec has its kind as one word, even with anchors, merge keys or repeated keys,
    /// unless the word is escaped, in base 64 or in UTF-16.
    pub(super) fn of(text: &[u8]) -> Self {
        if is_utf16(text) || text.contains(&b'\\') || has_tag(text) {
            return Self::Anything;
        }
        let words = text.split(|byte| !(byte.is_ascii_alphanumeric() || b"._-/".contains(byte)));
        let mut kinds = BTreeSet::new();
        for word in words {
            let kind = str::from_utf8(word).ok().and_then(|word| word.parse().ok());
            kinds.extend(kind);
            if kinds.len() > MAX_KINDS {
                return Self::Anything;
            }
        }
        if kinds.is_empty() {
            return Self::Nothing;
        }
        Self::Kinds(kinds)
    }

    /// Whether a device of the kind may be among them.
    pub(crate) fn may_have(&self, kind: &Kind) -> bool {
        match self {
            Self::Nothing => false,
            Self::Kinds(kinds) => kinds.contains(kind),
            Self::Anything => true,
        }
    }
}

/// Checks the byte order mark; without one, no reader assumes UTF-16.
fn is_utf16(text: &[u8]) -> bool {
    text.starts_with(&[0xfe, 0xff]) || text.starts_with(&[0xff, 0xfe])
}

/// Whether a word begins with `!`, as YAML's tags do: `!!binary` is base 64.
fn has_tag(text: &[u8]) -> bool {
    let mut before = b' ';
    text.iter().any(|byte| {
        let begins = !before.is_ascii_graphic() || b",:[{}]?-\"'".contains(&before);
        before = *byte;
        *byte == b'!' && begins
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Unread {
        Unread::of(text.as_bytes())
    }

    fn kinds(names: &[&str]) -> Unread {
        Unread::Kinds(names.iter().map(|name| name.parse().unwrap()).collect())
    }

    #[test]
    fn a_kind_is_found_wherever_it_is_a_word() {
        for text in [
            "kind: a.com/b",
            "{\"kind\":\"a.com/b\",\"devi",
            "x: &k a.com/b",
            "# \u{2028}kind: a.com/b\u{85}",
            "? kind\n: 'a.com/b' #!",
            "path: /dev/a/b /a/b\nkind: a.com/b",
        ] {
            assert_eq!(of(text), kinds(&["a.com/b"]), "{text}");
        }
        assert_eq!(
            of("KIND: a.com/b\nkind: c.com/d"),
            kinds(&["a.com/b", "c.com/d"])
        );
        for text in ["", "{", "# do not edit!", "path: /dev/x", "kind: a.com"] {
            assert_eq!(of(text), Unread::Nothing, "{text}");
        }
    }

    #[test]
    fn a_text_that_may_hide_its_kind_may_have_any() {
        for text in [
            "kind: \"a.com\\x2fb\"",
            "kind: !!binary YS5jb20vYg==",
            "kind: !<tag:yaml.org,2002:binary> YS5jb20vYg==",
            "{kind:!b YS5jb20vYg==}",
        ] {
            assert_eq!(of(text), Unread::Anything, "{text}");
        }
        let utf16 = "kind: a.com/b".encode_utf16();
        let bytes = |of: fn(u16) -> [u8; 2]| -> Vec<u8> {
            let units = std::iter::once(0xfeff).chain(utf16.clone());
            units.flat_map(of).collect()
        };
        assert_eq!(Unread::of(&bytes(u16::to_be_bytes)), Unread::Anything);
        assert_eq!(Unread::of(&bytes(u16::to_le_bytes)), Unread::Anything);
        let many = (0..=MAX_KINDS).map(|at| format!("k{at}.com/d "));
        assert_eq!(of(&many.collect::<String>()), Unread::Anything);
    }
}
