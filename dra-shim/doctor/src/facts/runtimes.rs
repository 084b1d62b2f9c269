//! The container runtimes of a host.

mod containerd;
mod docker;
mod handlers;
pub(crate) mod model;
mod options;
mod others;
mod running;
mod toml_file;
mod users;

use self::model::Runtime;
use crate::files::HostFiles;
use crate::kubelet_state::KUBELET_STATE_FILE;

/// The container runtimes of a host, and where it has its CDI specs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// containerd first, then CRI-O, Docker and podman.
    pub runtimes: Vec<Runtime>,
    /// The directories in which the specs are that runtimes have to read.
    pub spec_dirs: Vec<String>,
    /// Whether kubelet has state on this host, and is not served by Docker.
    pub has_kubelet: bool,
    /// What else uses specs, or can: programs that are installed, or that Docker has as a
    /// runtime.
    pub others: Vec<String>,
    /// Whether NVIDIA's toolkit writes `/var/run/cdi/nvidia.yaml` by itself, for whoever may use
    /// it.
    pub has_refresh: bool,
}

/// What kubelet writes into its root directory.
const KUBELET_STATE: [&str; 3] = [KUBELET_STATE_FILE, "cpu_manager_state", "pods"];

/// What serves kubelet by Docker; k3s has it built in, and makes its socket.
const DOCKER_FOR_KUBELET: [&str; 4] = [
    "/usr/bin/cri-dockerd",
    "/usr/local/bin/cri-dockerd",
    "/run/cri-dockerd.sock",
    "/run/k3s/cri-dockerd/cri-dockerd.sock",
];

// === impl RuntimeFacts ===

impl RuntimeFacts {
    /// Runs programs with `--version` where no package has their version.
    pub(crate) fn read(files: &HostFiles, spec_dirs: Vec<String>, kubelet_root: &str) -> Self {
        let mut runtimes = containerd::find(files);
        runtimes.extend(others::cri_o(files));
        let docker = docker::find(files);
        let others = users::find(files, docker.as_ref());
        runtimes.extend(docker.map(|it| it.runtime));
        runtimes.extend(others::podman(files));
        let mut state = KUBELET_STATE.iter();
        let has_state = state.any(|name| files.exists(&format!("{kubelet_root}/{name}")));
        Self {
            runtimes,
            spec_dirs,
            has_kubelet: has_state && files.first_existing(&DOCKER_FOR_KUBELET).is_none(),
            others,
            has_refresh: users::has_refresh(files),
        }
    }
}
