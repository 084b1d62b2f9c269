//! Texts for users: short, printable, and within kubelet's limits.

use std::error::Error;

/// The longest prefix of `text` that has at most `max` bytes and ends between
/// characters.
pub(crate) fn truncated(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Without control characters, and without those of Unicode's bidirectional
/// algorithm (UAX 9, section 2) that change what a reader sees.
pub(crate) fn visible(text: &str) -> String {
    let is_bidi = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = text.chars().filter(|c| !c.is_control() && !is_bidi(*c));
    shown.collect()
}

/// Why a request failed, in one clause: the API server's message, or the innermost
/// error, since `connection refused` says more than the five errors around it.
pub(crate) fn root_cause(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut error: &dyn Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// An error and all its sources, outermost first.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let errors = std::iter::successors(Some(error), |&error| error.source());
    let messages: Vec<_> = errors.map(ToString::to_string).collect();
    messages.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: KUBELET-52
    #[test]
    fn a_text_is_truncated_between_characters() {
        assert_eq!(truncated("aäb", 2), "a");
        assert_eq!(truncated("aäb", 3), "aä");
        assert_eq!(truncated("aäb", 9), "aäb");
    }
}
