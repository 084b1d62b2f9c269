//! The `:authority` that kubelet's grpc-go sends and a server must accept.

use std::fmt::Write as _;
use std::path::Path;

/// Returns the authority that grpc-go derives from a bare path: every byte as `%XX`, except
/// unreserved characters, sub-delimiters and `:[]@`. The part before an `@` is URI userinfo;
/// without an `@`, servers such as `h2` reject the authority.
pub(super) fn from_path(path: &Path) -> String {
    let path = path.to_string_lossy();
    let mut authority = String::with_capacity(2 * path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]@".contains(&byte) {
            authority.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(authority, "%{byte:02X}");
        }
    }
    authority
}

/// The authority for `unix:PATH`.
pub(super) const LOCALHOST: &str = "localhost";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_percent_encoded_except_the_at_sign() {
        let path = Path::new("/var/lib/kubelet/plugins_registry/d.example.com-1@reg.sock");
        assert_eq!(
            from_path(path),
            "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fd.example.com-1@reg.sock"
        );
    }
}
