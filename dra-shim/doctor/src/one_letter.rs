//! Kinds on which Go's CDI library panics.

use imex_cdi::Kind;

/// A part of a kind that has one letter. Go's CDI library up to 1.1.0, the newest that a
/// containerd has (2.3), panics when it loads such a spec, and the runtime with it
/// (`pkg/parser/parser.go`); 1.1.1, which NVIDIA's container toolkit 1.20.1 has, reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneLetter<'a> {
    /// `vendor` or `class`.
    part: &'static str,
    text: &'a str,
}

// === impl OneLetter ===

impl<'a> OneLetter<'a> {
    /// A stable code.
    pub const CODE: &'static str = "cdi-kind-one-letter";

    /// What to do about it.
    pub const FIX: &'static str = "give vendor and class of the kind two characters or more";

    /// `None` of a kind that Go's library loads.
    pub fn of(kind: &'a Kind) -> Option<Self> {
        let (part, text) = match (kind.vendor(), kind.class()) {
            (vendor, _) if vendor.len() == 1 => ("vendor", vendor),
            (_, class) if class.len() == 1 => ("class", class),
            _ => return None,
        };
        Some(Self { part, text })
    }

    /// What is wrong; `who` is the runtime that ends.
    pub fn message(&self, who: &str) -> String {
        let Self { part, text } = self;
        format!(
            "kind has the {part} {text:?} of one letter, on which Go's CDI library panics up to \
             1.1.0, and {who} with it"
        )
    }
}
