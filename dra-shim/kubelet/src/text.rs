//! Texts for users: short, and within kubelet's limits.

use std::error::Error;

/// The longest start of `text` that has at most `max` bytes and whole characters.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Without control characters, and without those of Unicode's bidirectional
/// algorithm (UAX 9, section 2) that change what a reader sees.
pub(crate) fn visible(text: &str) -> String {
    let is_bidi = |it: char| matches!(it, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = text.chars().filter(|it| !it.is_control() && !is_bidi(*it));
    shown.collect()
}

/// What went wrong with a request, in one clause: the API server's own words, or
/// the innermost error, since `connection refused` says more than the five around it.
pub(crate) fn reason(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut error: &dyn Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// An error and all its sources, from the outside in.
pub(crate) fn chain(error: &dyn Error) -> String {
    let errors = std::iter::successors(Some(error), |&error| error.source());
    let words: Vec<_> = errors.map(ToString::to_string).collect();
    words.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aäb", 2), "a");
        assert_eq!(cut("aäb", 3), "aä");
        assert_eq!(cut("aäb", 9), "aäb");
    }
}
