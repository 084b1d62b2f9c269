//! Errors of opening a session.

use std::path::PathBuf;

use dra_common::{Advice, OneLine};

use crate::not_found::{DriverFileNotFound, RejectReason};
use crate::nvml_failure::NvmlFailure;

/// Error of NVML as a whole: no session, or no number of devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[advice(code = _0.code(), hint = _0.hint())]
pub enum OpenError {
    /// There is no usable library.
    #[error(transparent)]
    NoLibrary(#[from] NoLibrary),
    /// The library failed as a whole.
    #[error(transparent)]
    Nvml(#[from] NvmlFailure),
}

/// Error of a missing or unusable `libnvidia-ml.so.1`.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
pub enum NoLibrary {
    /// There is no library below the driver root that this process can load.
    #[error(transparent)]
    #[advice(code = missing_code(_0), hint = missing_hint(_0))]
    Missing(#[from] DriverFileNotFound),
    /// The library was found, but the dynamic loader failed to load it.
    #[error("{} cannot be loaded: {}", OneLine(path.display()), OneLine(reason))]
    #[advice(
        code = "nvml-unloadable",
        hint = "check that the driver is for this node's architecture and that the driver's files are complete (run `ldd` on the library)"
    )]
    Unloadable {
        /// The file, with all links resolved.
        path: PathBuf,
        /// The loader's message, without the path.
        reason: String,
    },
}

fn missing_code(missing: &DriverFileNotFound) -> &'static str {
    if missing.has_reason(is_wrong_file) {
        "nvml-unloadable"
    } else {
        "nvml-missing"
    }
}

/// Returns the hint for the worst of several reasons.
fn missing_hint(missing: &DriverFileNotFound) -> &'static str {
    if missing.has_reason(is_incomplete) {
        "the NVIDIA driver is only partly installed: wait if the installation is still running; otherwise install the driver again"
    } else if missing.has_reason(|reason| matches!(reason, RejectReason::NotLinked { .. })) {
        "run `ldconfig` on the host (`chroot /run/nvidia/driver ldconfig` for a driver container) to create the link"
    } else if missing.has_reason(is_wrong_file) {
        "install the NVIDIA driver for this node's architecture, and remove the other file at the library's path"
    } else if missing.has_reason(is_not_a_file) {
        "remove the directory or link at the library's path, and install the NVIDIA driver on this node if the driver is missing"
    } else if missing.has_reason(|reason| matches!(reason, RejectReason::Unreadable(_))) {
        "let this process read the driver's files (run it as root; check SELinux and AppArmor), and check the file system"
    } else {
        "install the NVIDIA driver on this node, or set the driver's directory with `--driver-root` (cdi-gen doctor) or nvidiaDriverRoot (the chart)"
    }
}

/// Whether a part of the library exists, as during or after an interrupted installation.
fn is_incomplete(reason: &RejectReason) -> bool {
    matches!(
        reason,
        RejectReason::BrokenLink { .. } | RejectReason::Truncated { .. }
    )
}

/// Whether a file with that name exists, but is not a library for this process.
fn is_wrong_file(reason: &RejectReason) -> bool {
    matches!(
        reason,
        RejectReason::NotALibrary
            | RejectReason::WrongArchitecture { .. }
            | RejectReason::Truncated { .. }
    )
}

/// Whether the name exists but is not a file.
fn is_not_a_file(reason: &RejectReason) -> bool {
    matches!(reason, RejectReason::NotAFile | RejectReason::LinkLoop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_found::RejectedPath;

    #[test]
    fn the_hint_is_for_the_worst_reason() {
        let hint = |reasons: &[RejectReason]| {
            let rejected = reasons.iter().map(|reason| RejectedPath {
                path: "/lib64/libnvidia-ml.so.1".into(),
                reason: reason.clone(),
            });
            NoLibrary::Missing(DriverFileNotFound {
                name: "libnvidia-ml.so.1".to_owned(),
                root: "/".into(),
                nested: &[],
                rejected: rejected.collect(),
            })
            .hint()
        };
        let denied = RejectReason::Unreadable(std::io::ErrorKind::PermissionDenied);
        let unlinked = RejectReason::NotLinked {
            library: "libnvidia-ml.so.580".to_owned(),
        };
        assert!(
            hint(&[RejectReason::Missing, denied.clone()]).starts_with("let this process read")
        );
        for not_a_file in [RejectReason::LinkLoop, RejectReason::NotAFile] {
            assert!(
                hint(&[denied.clone(), not_a_file]).starts_with("remove the directory or link")
            );
        }
        assert!(hint(&[RejectReason::NotAFile, unlinked]).starts_with("run `ldconfig`"));
        assert!(hint(&[denied, RejectReason::NotALibrary]).contains("this node's architecture"));
    }
}
