//! Where a host's files are.

use std::path::PathBuf;

use clap::Args;
use host_doctor::DEFAULT_KUBELET_ROOT;
use imex_cdi::DEFAULT_DIRS;

/// Where a host's CDI specs are.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpecDirs {
    /// A directory of CDI specs, lowest priority first.
    #[arg(long = "spec-dir", value_name = "DIR", default_values = DEFAULT_DIRS)]
    pub(crate) dirs: Vec<PathBuf>,
    /// The host's root: spec directories, /dev and /proc are looked up below
    /// it, and links are followed within it.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// Where kubelet keeps its state.
#[derive(Debug, Clone, Args)]
pub(crate) struct KubeletRoot {
    /// kubelet's root directory (the plugin's --kubelet-root), below --root.
    #[arg(
        long = "kubelet-root",
        value_name = "DIR",
        default_value = DEFAULT_KUBELET_ROOT
    )]
    pub(crate) path: PathBuf,
}
