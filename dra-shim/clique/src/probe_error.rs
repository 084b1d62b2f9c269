//! Why a read found out nothing about any GPU.

use std::path::PathBuf;

use dra_common::{Advice, OneLine};

use crate::not_found::{DriverFileNotFound, RejectReason};
use crate::nvml_failure::NvmlFailure;

/// Why a read found out nothing about any GPU.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[advice(code = _0.code(), hint = _0.hint())]
pub enum ProbeError {
    /// There is no library to load.
    #[error(transparent)]
    NoLibrary(#[from] NoLibrary),
    /// The library failed as a whole.
    #[error(transparent)]
    Nvml(#[from] NvmlFailure),
}

/// Why there is no usable `libnvidia-ml.so.1`.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
pub enum NoLibrary {
    /// There is none below the driver root that this process could load.
    #[error(transparent)]
    #[advice(code = missing_code(_0), hint = missing_hint(_0))]
    Missing(#[from] DriverFileNotFound),
    /// It was found, and the dynamic loader failed to load it.
    #[error("{} cannot be loaded: {}", OneLine(path.display()), OneLine(reason))]
    #[advice(
        code = "nvml-unloadable",
        hint = "check that the driver's architecture is this node's and its files are complete (`ldd` on the library)"
    )]
    Unloadable {
        /// The file, all links resolved.
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

/// Of several reasons the worst decides.
fn missing_hint(missing: &DriverFileNotFound) -> &'static str {
    if missing.has_reason(is_incomplete) {
        "the NVIDIA driver is installed only in part: wait if it is being installed, otherwise install it again"
    } else if missing.has_reason(|reason| matches!(reason, RejectReason::NotLinked { .. })) {
        "run `ldconfig` on the host (`chroot /run/nvidia/driver ldconfig` for a driver container), which makes the link"
    } else if missing.has_reason(is_wrong_file) {
        "install the NVIDIA driver for this node's architecture, and remove what lies in its place"
    } else if missing.has_reason(is_not_a_file) {
        "remove what lies in the library's place, and install the NVIDIA driver on this node if it is not"
    } else if missing.has_reason(|reason| matches!(reason, RejectReason::Unreadable(_))) {
        "let this process read the driver's files (as root, past SELinux and AppArmor), and check the file system"
    } else {
        "install the NVIDIA driver on this node, or name the directory that has it (`--driver-root` of cdi-gen doctor, nvidiaDriverRoot of the chart)"
    }
}

/// Part of the library is there, as during an installation and after one that
/// was interrupted.
fn is_incomplete(reason: &RejectReason) -> bool {
    matches!(
        reason,
        RejectReason::BrokenLink { .. } | RejectReason::Truncated { .. }
    )
}

/// There is a file of that name that is not a library for this process.
fn is_wrong_file(reason: &RejectReason) -> bool {
    matches!(
        reason,
        RejectReason::NotALibrary
            | RejectReason::WrongArchitecture { .. }
            | RejectReason::Truncated { .. }
    )
}

/// There is something of that name that is not a file.
fn is_not_a_file(reason: &RejectReason) -> bool {
    matches!(reason, RejectReason::NotAFile | RejectReason::LinkLoop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_found::RejectedPath;

    #[test]
    fn each_reason_has_the_hint_that_fixes_it_and_the_worst_decides() {
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
            assert!(hint(&[denied.clone(), not_a_file]).starts_with("remove what lies"));
        }
        assert!(hint(&[RejectReason::NotAFile, unlinked]).starts_with("run `ldconfig`"));
        assert!(hint(&[denied, RejectReason::NotALibrary]).contains("this node's architecture"));
    }
}
