//! A plugin's no.

use std::fmt;

/// The longest message in bytes. It ends up in an event of the pod, which the API server
/// limits to 1024 bytes together with what the runtime and kubelet write around it.
const MAX_MESSAGE: usize = 800;

/// Why a plugin refuses: one sentence for the user. That of a
/// [`create_container`](crate::Plugin::create_container) stands in an event of the pod,
/// after `rpc error: code = Unknown desc = ` and what the runtime writes around it.
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal(String);

// === impl Refusal ===

impl Refusal {
    /// With this sentence: one line, without control characters and without those of
    /// Unicode that reorder text, at most 800 bytes.
    pub fn new(reason: impl fmt::Display) -> Self {
        let text = reason.to_string();
        let words: Vec<String> = text.split_whitespace().map(visible).collect();
        let mut text = words.join(" ").trim().to_owned();
        if text.is_empty() {
            text.push_str("the plugin gave no reason");
        }
        if text.len() > MAX_MESSAGE {
            let end = (0..=MAX_MESSAGE)
                .rev()
                .find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
            text.push_str("...");
        }
        Self(text)
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refusal({:?})", self.0)
    }
}

impl std::error::Error for Refusal {}

/// Without control characters, and without those of Unicode's bidirectional algorithm
/// (UAX 9, section 2).
fn visible(word: &str) -> String {
    let is_bidi = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = word.chars().filter(|c| !c.is_control() && !is_bidi(*c));
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_printable_line_and_never_empty() {
        assert_eq!(Refusal::new("a\n  b\u{7}").message(), "a b");
        assert!(!Refusal::new(" \n").message().is_empty());
        let long = Refusal::new("ä".repeat(MAX_MESSAGE));
        assert!(long.message().len() <= MAX_MESSAGE + 3);
        assert!(long.message().ends_with("ä..."));
    }
}
