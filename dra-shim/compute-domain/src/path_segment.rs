//! Names that somebody else has written down, on their way into a URL.

/// Whether `text` stays one segment of a URL's path, as every name of an object does.
pub(crate) fn is_path_segment(text: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().all(is_safe) && text.bytes().any(|byte| byte != b'.')
}
