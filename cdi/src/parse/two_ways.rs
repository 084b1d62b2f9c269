//! Texts that CDI's libraries in Go read as specs, but not as the same one.
//!
//! Up to 1.1.0 the library makes a string of what YAML 1.1 takes for a number or a boolean: a device
//! `0x10` is named `16`. Since 1.1.1 it keeps the spelling: `0x10`. One host may have both, in
//! its container runtime and in NVIDIA's.

use std::fmt;

use super::scalar::Scalar;
use super::tree::{NodeId, Tree, Value, same_name};

/// The fields that say what a device is and what it is called.
const TELLING: [&str; 5] = ["kind", "name", "path", "hostPath", "type"];

/// Why a text may be another spec to another reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TwoWays {
    /// A name, kind, path or type without quotes that is also a number or a boolean, in this line
    /// and column.
    Unquoted(usize, usize),
    /// A line break of YAML 1.1 that YAML 1.2 does not have: what follows may be a comment, or not.
    LineBreak(char),
}

// === impl TwoWays ===

impl TwoWays {
    pub(super) fn of_text(text: &[u8]) -> Option<Self> {
        let breaks = ['\u{85}', '\u{2028}', '\u{2029}'];
        let text = str::from_utf8(text).ok()?;
        text.chars()
            .find(|c| breaks.contains(c))
            .map(Self::LineBreak)
    }

    pub(super) fn of_tree(tree: &Tree<'_>) -> Option<Self> {
        if tree.respelled.is_empty() {
            return None;
        }
        let mappings = tree.nodes.iter().filter_map(|node| match &node.value {
            Value::Mapping(entries) => Some(entries),
            _ => None,
        });
        let unquoted = mappings
            .flatten()
            .find(|(key, value)| is_telling(tree, *key) && tree.is_respelled(*value));
        let (line, column) = tree.node(unquoted?.1).position;
        Some(Self::Unquoted(line, column))
    }

    /// What to do about it.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Unquoted(..) => "put it in quotes",
            Self::LineBreak(_) => "remove the character, or write it as an escape",
        }
    }
}

impl fmt::Display for TwoWays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unquoted(line, column) => write!(
                f,
                "what is without quotes in line {line}, column {column} is a number or a boolean to CDI's \
                 library up to 1.1.0, and a text since then"
            ),
            Self::LineBreak(found) => write!(
                f,
                "the character U+{:04X} ends a line for some readers only",
                u32::from(*found)
            ),
        }
    }
}

fn is_telling(tree: &Tree<'_>, key: NodeId) -> bool {
    match &tree.node(key).value {
        Value::Scalar(Scalar::Text(key)) => TELLING.iter().any(|field| same_name(key, field)),
        _ => false,
    }
}
