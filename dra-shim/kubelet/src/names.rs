//! Names as the API server demands them (RFC 1123).

/// A DNS label, which has at most so many characters.
const MAX_LABEL: usize = 63;

/// A DNS label: what a device is called.
pub(crate) fn is_label(name: &str) -> bool {
    name.len() <= MAX_LABEL && is_part(name)
}

/// A DNS subdomain: `spec.driver` and the names of nodes, each with a limit of its
/// own. A node's name becomes part of paths and field selectors, too.
pub(crate) fn is_subdomain(name: &str, max: usize) -> bool {
    // The API server limits the whole name only, not each part of it.
    name.len() <= max && name.split('.').all(is_part)
}

fn is_part(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}
