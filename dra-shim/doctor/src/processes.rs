//! The processes that a host's `/proc` shows.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use crate::file_id::FileId;
use crate::files::HostFiles;
use crate::root::Root;

/// Where every service of a host has its sockets: each host's own.
const RUN: &str = "/run";

/// The first processes of hosts, and of containers that are hosts of their own; that of
/// another container has another name.
const INITS: [&str; 2] = ["systemd", "init"];

/// The kernel's first namespace of processes, in which it runs all: `PROC_PID_INIT_INO` of
/// `linux/proc_ns.h`.
const ALL_PROCESSES: &str = "pid:[4026531836]";

/// The inode of the kernel's own `/proc`: `PROC_ROOT_INO` of `linux/proc_ns.h`.
const PROC_ROOT: u64 = 1;

/// A process of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number in the host's `/proc`.
    pub pid: u32,
    /// Its program's name, at most 15 bytes.
    pub name: String,
    /// Its user.
    pub uid: u32,
}

/// Whose files a process sees.
#[derive(Debug)]
pub(crate) enum ProcessRoot {
    /// This host's, below this root of its own: mounts may differ.
    Host(Root),
    /// A container's, or those of another host that shares the process ids.
    Other,
    /// It may not be examined.
    Denied,
}

/// The processes that there are now. Callers list them again for each area:
/// programs that are run in between take seconds, in which a daemon may restart.
pub(crate) fn processes(files: &HostFiles) -> Vec<Process> {
    let names = files.list("/proc");
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter_map(|pid| process(files, pid)).collect()
}

/// Whether no process of the host is hidden, as far as that is known. To a user from whom
/// others' are (`hidepid`, `proc(5)`) the first is not shown either, and in a container with
/// processes of its own another is the first.
pub(crate) fn all_are_seen(files: &HostFiles) -> bool {
    let first = files.text_if_readable("/proc/1/comm");
    first.is_some_and(|name| {
        INITS.contains(&name.trim()) || pid_namespace(files, 1).as_deref() == Some(ALL_PROCESSES)
    })
}

/// `pid:[4026531836]`; `None` if it may not be known.
pub(crate) fn pid_namespace(files: &HostFiles, pid: u32) -> Option<String> {
    let link = fs::read_link(files.resolve(&format!("/proc/{pid}/ns/pid"))).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Whether the host runs, and is not only its files.
pub(crate) fn is_live(files: &HostFiles) -> bool {
    let proc = files.resolve_target("/proc").metadata();
    proc.is_ok_and(|found| found.ino() == PROC_ROOT)
}

fn process(files: &HostFiles, pid: u32) -> Option<Process> {
    let dir = files.resolve(&format!("/proc/{pid}"));
    let uid = dir.metadata().ok()?.uid();
    let name = files.text_if_readable(&format!("/proc/{pid}/comm"))?;
    Some(Process {
        pid,
        name: name.trim_end().to_owned(),
        uid,
    })
}

/// A process is this host's if it has the root directory and the `/run` that
/// this host has: with them go the sockets through which it is reached. Its
/// mount namespace is no criterion: a debug pod has another one than the host,
/// and a process with a mount of its own is what has to be found.
pub(crate) fn process_root(files: &HostFiles, pid: u32) -> ProcessRoot {
    let link = files.resolve(&format!("/proc/{pid}/root"));
    let top = match link.join(".").metadata() {
        Ok(found) => FileId::from_metadata(&found),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return ProcessRoot::Denied;
        }
        Err(_) => return ProcessRoot::Other,
    };
    let Ok(root) = Root::new(&link) else {
        return ProcessRoot::Other;
    };
    let own = files.root().as_path().metadata().ok();
    let same_top = own.is_some_and(|found| FileId::from_metadata(&found) == top);
    if same_top && FileId::at(&root, RUN) == FileId::at(files.root(), RUN) {
        ProcessRoot::Host(root)
    } else {
        ProcessRoot::Other
    }
}

// === impl Process ===

impl Process {
    /// Name and number, for a message.
    pub(crate) fn label(&self) -> String {
        format!("{} (process {})", self.name, self.pid)
    }
}
