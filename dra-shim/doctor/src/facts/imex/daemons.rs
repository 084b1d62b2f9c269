//! The nvidia-imex processes of a host and its containers.

use std::io;

use crate::host::Host;
use crate::processes::{ProcessRoot, arguments, pid_namespace, process_root, processes};

pub(crate) const PROGRAM: &str = "nvidia-imex";

/// Words in the cgroup path of a container's process.
const CONTAINERS: [&str; 5] = ["kubepods", "docker", "containerd", "crio", "libpod"];

/// A running `nvidia-imex`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImexDaemon {
    /// Its process.
    pub pid: u32,
    /// Its cgroup, `/system.slice/nvidia-imex.service`; `None` if it cannot be read.
    pub cgroup: Option<String>,
    /// Whether it has a session with the driver: not if it was started without a GPU.
    pub uses_driver: bool,
}

/// A running daemon, with the facts for reading its configuration.
#[derive(Debug)]
pub(super) struct RunningDaemon {
    pub(super) facts: ImexDaemon,
    /// `pid:[4026531836]`; `None` if it cannot be read.
    pid_namespace: Option<String>,
    /// The files as the daemon sees them; `None` if they cannot be examined.
    pub(super) files: Option<Host>,
    /// Whether these are the host's files, as far as known.
    pub(super) sees_host: bool,
    /// Its command line, its own name first; empty if it has exited.
    pub(super) arguments: io::Result<Vec<String>>,
}

/// One process for each session with the driver: a process and its child share a session.
pub(super) fn find(host: &Host) -> Vec<RunningDaemon> {
    let mut found: Vec<RunningDaemon> = Vec::new();
    for process in processes(host) {
        if process.name != PROGRAM {
            continue;
        }
        if let Some(daemon) = RunningDaemon::read(host, process.pid)
            && !found.iter().any(|other| other.is_beside(&daemon))
        {
            found.push(daemon);
        }
    }
    found
}

// === impl ImexDaemon ===

impl ImexDaemon {
    /// Whether it runs in a container, according to its cgroup if that is known.
    pub fn is_in_container(&self) -> bool {
        self.cgroup.as_deref().is_some_and(is_container)
    }
}

// === impl RunningDaemon ===

impl RunningDaemon {
    /// Reads a process; `None` for a zombie.
    fn read(host: &Host, pid: u32) -> Option<Self> {
        let arguments = arguments(host, pid);
        if matches!(&arguments, Ok(Some(arguments)) if arguments.is_empty()) {
            return None;
        }
        let arguments = arguments.map(Option::unwrap_or_default);
        let cgroup = host.text_if_readable(&format!("/proc/{pid}/cgroup"));
        let cgroup = cgroup.as_deref().and_then(cgroup_path);
        let link = host.resolve(format!("/proc/{pid}/root"));
        let files = Host::open(&link).ok();
        let sees_host = match process_root(host, pid) {
            ProcessRoot::Host(_) => true,
            ProcessRoot::Other if files.is_some() => false,
            ProcessRoot::Other | ProcessRoot::Denied => {
                !cgroup.as_deref().is_some_and(is_container)
            }
        };
        Some(Self {
            facts: ImexDaemon {
                pid,
                cgroup,
                uses_driver: uses_driver(arguments.as_deref().unwrap_or_default()),
            },
            pid_namespace: pid_namespace(host, pid),
            files,
            sees_host,
            arguments,
        })
    }

    /// Whether both belong to one service or container.
    fn is_beside(&self, other: &Self) -> bool {
        let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        !differ(&self.facts.cgroup, &other.facts.cgroup)
            && !differ(&self.pid_namespace, &other.pid_namespace)
    }
}

/// Whether the daemon opens the driver: not if it was started without a GPU.
fn uses_driver(arguments: &[String]) -> bool {
    !arguments.iter().any(|it| it == "--nogpu" || it == "-nogpu")
}

/// The longest path in lines such as `4:memory:/a` and `0::/a/b`, one for each hierarchy of both
/// cgroup versions.
fn cgroup_path(text: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.max_by_key(|path| path.len()).map(str::to_owned)
}

/// Whether a cgroup's path is that of a container, of any runtime.
fn is_container(cgroup: &str) -> bool {
    CONTAINERS.iter().any(|it| cgroup.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_the_longest_path() {
        let both = "4:memory:/kubepods/pod1/abc\n1:name=systemd:/kubepods/pod1\n0::/\n";
        assert_eq!(cgroup_path(both).as_deref(), Some("/kubepods/pod1/abc"));
        assert_eq!(cgroup_path("0::/a:b\n").as_deref(), Some("/a:b"));
        assert_eq!(cgroup_path(""), None);
    }
}
