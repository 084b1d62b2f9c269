//! The runtimes of `--for`.

use std::borrow::Cow;

use host_doctor::{RuntimeRelease, UnknownRuntime};

/// `podman-4.9.3`; also as packages and the runtimes themselves print their versions,
/// `podman-4.9.3+ds1-1build2`.
pub(super) fn parse(text: &str) -> Result<RuntimeRelease, UnknownRuntime> {
    released(text).parse()
}

/// Without what a distribution adds to the version: an epoch before it, and a build
/// after it.
fn released(text: &str) -> Cow<'_, str> {
    // As kubelet reports it: read so already.
    if text.contains("://") {
        return text.into();
    }
    let is_version = |text: &str| {
        let digits = text.strip_prefix('v').unwrap_or(text);
        digits.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut dashes = text.match_indices('-');
    let split = dashes.find_map(|(at, _)| {
        let (runtime, version) = (text.get(..at)?, text.get(at + 1..)?);
        is_version(version).then_some((runtime, version))
    });
    let Some((runtime, version)) = split else {
        return text.into();
    };
    let version = match version.split_once(':') {
        Some((epoch, version)) if epoch.bytes().all(|byte| byte.is_ascii_digit()) => version,
        _ => version,
    };
    let release = version.split(['-', '+', '~']).next().unwrap_or(version);
    format!("{runtime}-{release}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_a_package_is_that_of_its_release() {
        for (text, name) in [
            ("podman-4.9.3+ds1-1build2", "podman-4.9.3"),
            ("podman-4.9.4-rhel", "podman-4.9.4"),
            ("podman-4:5.2.2-13.el9_5", "podman-5.2.2"),
            ("containerd-1.7.27-0ubuntu1~24.04.1", "containerd-1.7.27"),
            ("containerd-v2.1.4-k3s1", "containerd-v2.1.4"),
            ("docker-5:28.2.2-1~ubuntu.24.04~noble", "docker-28.2.2"),
            ("cri-o-1.34.2-1.1", "cri-o-1.34.2"),
            ("cri-o-1.34", "cri-o-1.34"),
            (
                "containerd://1.7.27-0ubuntu1",
                "containerd://1.7.27-0ubuntu1",
            ),
        ] {
            assert_eq!(parse(text).unwrap().name(), name, "{text}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused_as_before() {
        for (text, reason) in [
            ("containerd", "\"containerd\" is not a runtime and version"),
            ("containerd-x", "\"containerd-x\" is no"),
            ("containerd-1.2.3.4", "\"containerd-1.2.3.4\" is no"),
            ("podman-3.4.4+ds1-1ubuntu1", "podman-3.4.4 is older than"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
