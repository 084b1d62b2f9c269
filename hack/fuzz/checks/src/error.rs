//! What every error owes whoever reads it.

use std::error::Error;

/// Bytes: an input must not choose how much is logged. (An error quotes at most
/// some hundred characters, and an escaped one takes up to ten.)
const LONGEST: usize = 4000;

/// The error is one short line, has a code in kebab-case and a fix.
pub(crate) fn is_helpful(error: &dyn Error, code: &str, hint: &str) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() <= LONGEST, "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
    let kebab = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    assert!(!code.is_empty() && code.bytes().all(kebab), "{code}");
    assert!(!hint.is_empty(), "{text}: no hint");
}
