//! Syntax of names: of Kubernetes objects (RFC 1123) and of CDI devices.

/// Maximum length of an object's `metadata.name`, a DNS subdomain.
pub(crate) const MAX_OBJECT_NAME: usize = 253;
/// Maximum length of a DNS label.
const MAX_LABEL: usize = 63;

/// Whether `name` is a DNS label, as device names must be.
pub(crate) fn is_label(name: &str) -> bool {
    name.len() <= MAX_LABEL && is_part(name)
}

/// Whether `name` is a DNS subdomain of at most `max` bytes, as names of drivers and nodes
/// must be. A node's name also becomes part of paths and field selectors.
pub(crate) fn is_subdomain(name: &str, max: usize) -> bool {
    // The API server limits the whole name only, not each part of it.
    name.len() <= max && name.split('.').all(is_part)
}

/// Whether `uid` is valid as an object's UID and as part of a file name: 1 to 63 ASCII
/// letters, digits and inner dashes. The API server assigns UUIDs.
pub(crate) fn is_uid(uid: &str) -> bool {
    uid.len() <= MAX_LABEL && is_made_of(uid, "-")
}

fn is_part(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// Whether `id` is a fully qualified CDI device id: `vendor/class=name`, with the
/// characters that the CDI specification (1.1.0, "kind" and "name") allows in each part.
pub(crate) fn is_cdi_id(id: &str) -> bool {
    let Some((kind, name)) = id.split_once('=') else {
        return false;
    };
    let Some((vendor, class)) = kind.split_once('/') else {
        return false;
    };
    let is_kind = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic()) && is_made_of(part, "_-.")
    };
    is_kind(vendor) && is_kind(class) && is_made_of(name, "_-.:")
}

/// Whether `part` begins and ends with an ASCII letter or digit, and contains only these and
/// the characters of `inner`.
fn is_made_of(part: &str, inner: &str) -> bool {
    let at_ends = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
    at_ends(part.chars().next())
        && at_ends(part.chars().next_back())
        && part
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || inner.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: KUBELET-23
    #[test]
    fn a_cdi_id_needs_vendor_class_and_name_with_valid_characters() {
        let good = ["a/b=c", "vendor.example.com/my_class-1=0", "v/c=a:b.c-d_e"];
        for id in good {
            assert!(is_cdi_id(id), "{id}");
        }
        let bad = [
            "",
            "a",
            "a/b",
            "a=b",
            "/b=c",
            "a/=c",
            "a/b=",
            "1a/b=c",
            "a/b/c=d",
            "a/b=c ",
            "a/b=-c",
            "a/b=ä",
            "a./b=c",
            "a/b=c=d",
            "not a cdi id",
        ];
        for id in bad {
            assert!(!is_cdi_id(id), "{id}");
        }
    }
}
