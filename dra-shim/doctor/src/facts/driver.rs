//! The NVIDIA driver: its kernel module and its library.

pub(crate) mod gpus;

use std::path::Path;

use nvml_clique::{DriverFileNotFound, DriverRoot};

use self::gpus::PciGpus;
use crate::files::HostFiles;

/// Present while the kernel module is loaded.
pub(crate) const MODULE_VERSION: &str = "/proc/driver/nvidia/version";

/// Which parts of the driver a host has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriverFacts {
    /// The kernel module; `None` if it is not loaded.
    pub module: Option<KernelModule>,
    /// The path of NVML, `libnvidia-ml.so.1` with links followed; `None` if no
    /// usable one was found.
    pub library: Option<String>,
    /// Where it was searched, and what was rejected there and why; `None` if one
    /// was found.
    pub rejected: Option<DriverFileNotFound>,
    /// The GPUs that it is for; `None` if the PCI bus cannot be listed.
    pub gpus: Option<PciGpus>,
}

/// The loaded kernel module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelModule {
    /// `580.82.07`; `None` if the module's version line has another form.
    pub version: Option<String>,
}

// === impl DriverFacts ===

impl DriverFacts {
    /// Reads them, with the library below `driver_root`, and returns that root if
    /// it has one.
    pub(crate) fn read(files: &HostFiles, driver_root: &Path) -> (Self, Option<DriverRoot>) {
        let module = files.text_if_readable(MODULE_VERSION);
        let module = module.map(|text| KernelModule {
            version: text.lines().next().and_then(module_version),
        });
        let root = DriverRoot::new(files.root().resolve_target(driver_root));
        let (library, rejected) = match root.find_library() {
            Ok(library) => (Some(files.host_name(&library)), None),
            Err(error) => (None, Some(with_host_names(files, error))),
        };
        let root = library.is_some().then_some(root);
        let facts = Self {
            module,
            library,
            rejected,
            gpus: PciGpus::read(files),
        };
        (facts, root)
    }
}

/// The same search, with the paths that the host has for what it found.
pub(crate) fn with_host_names(
    files: &HostFiles,
    mut error: DriverFileNotFound,
) -> DriverFileNotFound {
    error.root = files.host_name(&error.root).into();
    for rejected in &mut error.rejected {
        rejected.path = files.host_name(&rejected.path).into();
    }
    error
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Mon Aug ...`.
fn module_version(line: &str) -> Option<String> {
    let version = line.split_whitespace().find(|word| {
        let is_numeric = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        is_numeric && word.contains('.')
    });
    version.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_dotted_number_of_the_first_line() {
        let line =
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  Release Build";
        assert_eq!(module_version(line).as_deref(), Some("580.82.07"));
        assert_eq!(module_version("NVRM version: unknown"), None);
    }
}
