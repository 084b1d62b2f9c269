//! The driver's version from the names of its libraries.

use std::collections::BTreeSet;

use dra_common::Advice;
use nvml_session::DriverRoot;

use crate::directories::library_dirs;
use crate::libraries::split_version;
use crate::tree::Tree;
use crate::version::DriverVersion;

/// Why the files of a driver root do not show one version.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
pub enum VersionNotFound {
    /// No library of the driver has a version in its name.
    #[error("the driver root has no libcuda.so or libnvidia-ml.so with a version in its name")]
    #[advice(
        code = "driver-version-unknown",
        hint = "install the NVIDIA driver, or pass the driver's root directory"
    )]
    NoLibrary,
    /// The libraries belong to a Tegra system such as Jetson, which needs other files.
    #[error("{name} is a library of a Tegra system")]
    #[advice(
        code = "driver-tegra-unsupported",
        hint = "Tegra's driver has other files, which are not supported; use NVIDIA's container toolkit in CSV mode"
    )]
    Tegra {
        /// The library's name.
        name: String,
    },
    /// Libraries of several versions are installed.
    #[error(
        "the driver root has libraries of several versions: {}",
        joined(versions)
    )]
    #[advice(
        code = "driver-version-mixed",
        hint = "load the kernel module, whose version decides, or remove the files of the other version"
    )]
    Several {
        /// The versions, sorted as text.
        versions: Vec<DriverVersion>,
    },
}

fn joined(versions: &[DriverVersion]) -> String {
    let texts: Vec<&str> = versions.iter().map(DriverVersion::as_str).collect();
    texts.join(", ")
}

/// Finds the version of the driver in a root by the names of `libcuda` and `libnvidia-ml`.
///
/// Use the kernel module's version where it is known (`/proc/driver/nvidia/version`, NVML): after an upgrade, the
/// files and the loaded module differ until the module is loaded again.
pub fn find_version(root: &DriverRoot) -> Result<DriverVersion, VersionNotFound> {
    let tree = Tree(root);
    let mut versions = BTreeSet::new();
    let mut tegra = None;
    for name in library_dirs(&tree).iter().flat_map(|dir| tree.names(dir)) {
        let Some((stem @ ("libcuda" | "libnvidia-ml"), version)) = split_version(&name) else {
            continue;
        };
        match version.parse() {
            Ok(version) => {
                versions.insert(version);
            }
            Err(_) if stem == "libcuda" && version.contains('.') => tegra = Some(name),
            Err(_) => {}
        }
    }
    let mut versions: Vec<DriverVersion> = versions.into_iter().collect();
    match (versions.pop(), tegra) {
        (Some(version), _) if versions.is_empty() => Ok(version),
        (Some(last), _) => {
            versions.push(last);
            Err(VersionNotFound::Several { versions })
        }
        (None, Some(name)) => Err(VersionNotFound::Tegra { name }),
        (None, None) => Err(VersionNotFound::NoLibrary),
    }
}
