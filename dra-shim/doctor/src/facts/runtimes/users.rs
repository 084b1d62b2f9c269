//! What uses CDI specs beside the runtimes that are examined.

use super::docker::Docker;
use crate::files::HostFiles;
use crate::systemd::DIRS;

/// Programs that take CDI devices: `nerdctl run --device`, `singularity run --device`
/// (`SingularityCE` 4; apptainer has its name), `BuildKit` from 0.20 on.
const PROGRAMS: [&str; 4] = ["nerdctl", "singularity", "apptainer", "buildkitd"];
const DIRS_OF_PROGRAMS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// Of NVIDIA's toolkit from 1.18 on; its package enables it.
const REFRESH: &str = "nvidia-cdi-refresh.service";

pub(super) fn find(files: &HostFiles, docker: Option<&Docker>) -> Vec<String> {
    let of_docker = docker.iter().flat_map(|it| it.cdi_runtimes.clone());
    let paths = PROGRAMS.iter().flat_map(|name| {
        let dirs = DIRS_OF_PROGRAMS.iter();
        dirs.map(move |dir| format!("{dir}/{name}"))
    });
    let installed = paths.filter(|path| files.exists(path));
    of_docker.chain(installed).collect()
}

pub(super) fn has_refresh(files: &HostFiles) -> bool {
    let mut units = DIRS.iter().map(|dir| format!("{dir}/{REFRESH}"));
    units.any(|unit| files.exists(&unit))
}
