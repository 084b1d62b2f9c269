//! The container runtimes of a host.

mod containerd;
pub(crate) mod model;
mod others;
mod running;
mod toml_file;

use self::model::Runtime;
use crate::files::HostFiles;

/// The container runtimes of a host, and where it has its CDI specs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// containerd first, then CRI-O, Docker and podman.
    pub runtimes: Vec<Runtime>,
    /// The directories in which the specs are that runtimes have to read.
    pub spec_dirs: Vec<String>,
}

// === impl RuntimeFacts ===

impl RuntimeFacts {
    /// Runs programs with `--version` where no package has their version.
    pub(crate) fn read(files: &HostFiles, spec_dirs: Vec<String>) -> Self {
        let mut runtimes = containerd::find(files);
        runtimes.extend(others::cri_o(files));
        runtimes.extend(others::docker(files));
        runtimes.extend(others::podman(files));
        Self {
            runtimes,
            spec_dirs,
        }
    }
}
