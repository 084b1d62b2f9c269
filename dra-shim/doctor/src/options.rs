//! What of a host is read, and where it is.

use std::path::PathBuf;

use imex_cdi::DEFAULT_DIRS;

/// kubelet's root directory, unless it was given another (`--root-dir`).
pub const DEFAULT_KUBELET_ROOT: &str = "/var/lib/kubelet";

/// The root of a driver that is installed on the host.
pub const DEFAULT_DRIVER_ROOT: &str = "/";

/// Where a host has what differs between distributions. Paths are the host's
/// own names, whatever root the host is examined through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// kubelet's root directory; [`DEFAULT_KUBELET_ROOT`] by default.
    pub kubelet_root: PathBuf,
    /// The directory below which the NVIDIA driver is installed; `/` by default,
    /// which is also searched for the roots of drivers within it
    /// ([`nvml_clique::DriverRoot::find_library`]).
    pub driver_root: PathBuf,
    /// The directories of CDI specs, lowest priority first;
    /// [`imex_cdi::DEFAULT_DIRS`] by default.
    pub spec_dirs: Vec<PathBuf>,
    /// The command socket of the host IMEX daemon. With it
    /// `nvidia-imex-ctl` is run; without it, which is the default, the daemon is
    /// not asked.
    pub imex_socket: Option<PathBuf>,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            kubelet_root: DEFAULT_KUBELET_ROOT.into(),
            driver_root: DEFAULT_DRIVER_ROOT.into(),
            spec_dirs: DEFAULT_DIRS.map(PathBuf::from).to_vec(),
            imex_socket: None,
        }
    }
}
