//! Checks names from files and annotations before they go into a URL.

/// Whether `text` is a single segment of a URL path, as every object name is.
pub fn is_path_segment(text: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().all(is_safe) && text.bytes().any(|byte| byte != b'.')
}
