//! Reading one object by a name that somebody else has written down.

use kube::core::Status;

/// Whether `text` stays one segment of a URL's path, as every name of an object does.
pub(crate) fn is_path_segment(text: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().all(is_safe) && text.bytes().any(|byte| byte != b'.')
}

/// Whether the API server says that the object `name` of the kind `plural` does not
/// exist. Any other 404 says that it does not serve the kind, or comes from something
/// in between.
pub(crate) fn says_gone(status: &Status, plural: &str, name: &str) -> bool {
    let is_about_it = status
        .details
        .as_ref()
        .is_some_and(|about| about.name == name && about.kind == plural);
    status.reason == "NotFound" && is_about_it
}
