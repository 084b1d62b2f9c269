//! A plugin's refusal.

use std::fmt;

use dra_common::joined_lines;

/// Maximum length of the message in bytes. It becomes part of a pod event, for which the API
/// server allows 1024 bytes, including the text that the runtime and kubelet add.
const MAX_MESSAGE: usize = 800;

/// The reason for a plugin's refusal: one sentence for the user. A refused
/// [`create_container`](crate::Plugin::create_container) gets an event of the pod, with the
/// sentence after `rpc error: code = Unknown desc = ` and the runtime's own text. Write for the
/// pod's owner: what is wrong, and what to do.
///
/// ```text
/// failed to create containerd container: failed to get NRI adjustment for container: rpc error: code = Unknown desc = a container without a command is not for this node
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal(String);

// === impl Refusal ===

impl Refusal {
    /// A refusal with this sentence. It is reduced to one line of at most 800 bytes, without
    /// control characters and without Unicode characters that reorder text.
    pub fn new(reason: impl fmt::Display) -> Self {
        let mut text = joined_lines(&reason.to_string(), MAX_MESSAGE);
        if text.is_empty() {
            text.push_str("the plugin gave no reason");
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
