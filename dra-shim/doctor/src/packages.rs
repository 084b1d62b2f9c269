//! Versions of a host's packages.

use crate::host::Host;

/// The package database of Debian and its derivatives.
const DPKG: &str = "/var/lib/dpkg/status";

/// The version of the first package of `names` that is installed, `1.7.28`, without the
/// distribution's suffix.
///
/// Removed packages can remain in the database; only installed ones count.
pub(crate) fn version(host: &Host, names: &[&str]) -> Option<String> {
    let status = host.text_if_readable(DPKG)?;
    status.split("\n\n").find_map(|paragraph| {
        let field = |key: &str| {
            let mut lines = paragraph.lines();
            lines.find_map(|line| line.strip_prefix(key)).map(str::trim)
        };
        let installed = field("Status:").is_none_or(|it| it.ends_with(" installed"));
        let ours = names.contains(&field("Package:")?);
        let version = field("Version:")?;
        // An epoch: `5:28.2.2-1~debian`.
        let version = version.split_once(':').map_or(version, |(_, rest)| rest);
        (ours && installed).then(|| release(version)).flatten()
    })
}

/// The release in `v1.7.28`, `4.9.3+ds1-1` and so on; `None` if the text begins otherwise.
pub(crate) fn release(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = text.get(..end.unwrap_or(text.len()))?.trim_end_matches('.');
    numbers.contains('.').then(|| numbers.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_the_version_without_a_distributions_suffix() {
        for (text, found) in [
            ("1.7.28-1~ubuntu.22.04", Some("1.7.28")),
            ("v2.1.3", Some("2.1.3")),
            ("4.9.3+ds1-1", Some("4.9.3")),
            ("28.2.2,", Some("28.2.2")),
            ("containerd", None),
            ("github.com/containerd", None),
        ] {
            assert_eq!(release(text).as_deref(), found, "{text}");
        }
    }
}
