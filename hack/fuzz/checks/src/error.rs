//! Properties of every error's text.

use std::error::Error;

/// The limit of a text in bytes: an input must not control how much is logged. (An
/// error quotes at most some hundred characters; an escaped one takes up to ten bytes.)
const LONGEST: usize = 4000;

/// Checks that the error is one short line with a code in kebab-case and a hint.
pub(crate) fn is_helpful(error: &dyn Error, code: &str, hint: &str) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() <= LONGEST, "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
    let kebab = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    assert!(!code.is_empty() && code.bytes().all(kebab), "{code}");
    assert!(!hint.is_empty(), "{text}: no hint");
}
