//! The nvidia-imex processes of a host, and whose they are.

use std::fs;
use std::io;

use crate::command_line;
use crate::files::HostFiles;
use crate::finding::Finding;
use crate::processes::{ProcessRoot, process_root, processes};
use crate::root::Root;

pub(super) const PROGRAM: &str = "nvidia-imex";

/// What is in the cgroup's path of a container's process.
const CONTAINERS: [&str; 5] = ["kubepods", "docker", "containerd", "crio", "libpod"];

/// A process of the program.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) pid: u32,
    /// `/system.slice/nvidia-imex.service`; `None` if it cannot be read.
    cgroup: Option<String>,
    /// `pid:[4026531836]`; `None` if it cannot be read.
    pid_namespace: Option<String>,
    /// The files as it sees them; `None` if they may not be looked at.
    pub(super) files: Option<HostFiles>,
    /// Whether these are the host's, as far as that is known.
    pub(super) sees_host: bool,
    /// What it was started with, its own name first; none if it has gone.
    pub(super) words: io::Result<Vec<String>>,
}

/// One of each that has a session of its own with the driver: a process and
/// its child have one.
pub(super) fn find(files: &HostFiles) -> Vec<Daemon> {
    let mut found: Vec<Daemon> = Vec::new();
    for process in processes(files) {
        if process.name != PROGRAM {
            continue;
        }
        if let Some(daemon) = Daemon::read(files, process.pid)
            && !found.iter().any(|other| other.is_beside(&daemon))
        {
            found.push(daemon);
        }
    }
    found
}

/// A driver has one session for a daemon: the second gets `NV_ERR_IN_USE`.
pub(super) fn of_sessions(daemons: &[Daemon]) -> Option<Finding> {
    let daemons: Vec<&Daemon> = daemons.iter().filter(|it| it.has_session()).collect();
    let [_, _, ..] = daemons.as_slice() else {
        return None;
    };
    let (inside, outside): (Vec<&Daemon>, Vec<&Daemon>) =
        daemons.iter().partition(|it| it.is_in_container());
    let fix = if inside.is_empty() || outside.is_empty() {
        "let one of them run, and end what starts the others"
    } else {
        "let one of them run. Where hosts manage IMEX that is the host's: the other is of a driver that starts daemons itself, such as NVIDIA's in mode driverManaged; install that with resources.computeDomains.enabled=false or imex.mode=hostManaged. Otherwise: systemctl disable --now nvidia-imex"
    };
    let shown: Vec<String> = daemons.iter().map(|it| it.shown()).collect();
    Some(Finding::error(
        "host-imex-two-daemons",
        PROGRAM,
        format!(
            "{}: the driver has one IMEX session, and refuses a second daemon (NV_ERR_IN_USE)",
            shown.join(", ")
        ),
        fix,
    ))
}

// === impl Daemon ===

impl Daemon {
    /// `None` if it has ended, and is only remembered for its parent.
    fn read(files: &HostFiles, pid: u32) -> Option<Self> {
        let words = command_line::arguments(files, pid);
        if matches!(&words, Ok(Some(words)) if words.is_empty()) {
            return None;
        }
        let cgroup = files.text_if_any(&format!("/proc/{pid}/cgroup"));
        let cgroup = cgroup.as_deref().and_then(cgroup_of);
        let link = files.at(&format!("/proc/{pid}/root"));
        let root = Root::new(&link).ok();
        let sees_host = match process_root(files, pid) {
            ProcessRoot::Host(_) => true,
            ProcessRoot::Other if root.is_some() => false,
            ProcessRoot::Other | ProcessRoot::Denied => {
                !cgroup.as_deref().is_some_and(is_container)
            }
        };
        Some(Self {
            pid,
            cgroup,
            pid_namespace: pid_namespace(files, pid),
            files: root.map(HostFiles::new),
            sees_host,
            words: words.map(Option::unwrap_or_default),
        })
    }

    /// Whether both are of one service or container.
    fn is_beside(&self, other: &Self) -> bool {
        let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        !differ(&self.cgroup, &other.cgroup) && !differ(&self.pid_namespace, &other.pid_namespace)
    }

    /// Without a GPU it asks no driver.
    fn has_session(&self) -> bool {
        let words = self.words.as_deref().unwrap_or_default();
        !words.iter().any(|it| it == "--nogpu" || it == "-nogpu")
    }

    pub(super) fn is_in_container(&self) -> bool {
        self.cgroup.as_deref().is_some_and(is_container)
    }

    fn shown(&self) -> String {
        let cgroup = self.cgroup.as_deref().unwrap_or("not readable");
        let pid = self.pid;
        format!("process {pid} (cgroup {cgroup})")
    }
}

/// Of `4:memory:/a` and `0::/a/b`, as a process has them in the hierarchies of
/// both versions, the one that says the most.
fn cgroup_of(text: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.max_by_key(|path| path.len()).map(str::to_owned)
}

fn is_container(cgroup: &str) -> bool {
    CONTAINERS.iter().any(|it| cgroup.contains(it))
}

/// `pid:[4026531836]`; `None` if it may not be known.
fn pid_namespace(files: &HostFiles, pid: u32) -> Option<String> {
    let link = fs::read_link(files.at(&format!("/proc/{pid}/ns/pid"))).ok()?;
    Some(link.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_the_path_that_says_the_most() {
        let both = "4:memory:/kubepods/pod1/abc\n1:name=systemd:/kubepods/pod1\n0::/\n";
        assert_eq!(cgroup_of(both).as_deref(), Some("/kubepods/pod1/abc"));
        assert_eq!(cgroup_of("0::/a:b\n").as_deref(), Some("/a:b"));
        assert_eq!(cgroup_of(""), None);
    }
}
