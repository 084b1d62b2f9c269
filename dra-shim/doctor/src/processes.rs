//! The processes in a host's `/proc`, and their command lines.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use crate::dra_driver::DraDriver;
use crate::host::{FileId, Host};

/// The directory of a host's sockets; each host has its own.
const RUN: &str = "/run";

/// The names of the first process of hosts, and of containers with an init system. In other
/// containers it has another name.
const INITS: [&str; 2] = ["systemd", "init"];

/// The kernel's initial PID namespace, which has all processes: `PROC_PID_INIT_INO` of
/// `linux/proc_ns.h`.
const ALL_PROCESSES: &str = "pid:[4026531836]";

/// The inode of the kernel's own `/proc`: `PROC_ROOT_INO` of `linux/proc_ns.h`.
const PROC_ROOT: u64 = 1;

/// The options of containerd and nvidia-imex that name a configuration. None of them has another
/// meaning in the other program.
const CONFIG_OPTIONS: [&str; 3] = ["-c", "--config", "--config-file"];

/// The length of a process's name, to which the kernel shortens its program's.
const NAME_LEN: usize = 15;

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

/// The root directory of a process.
#[derive(Debug)]
pub(crate) enum ProcessRoot {
    /// This host's, as seen by the process: mounts may differ.
    Host(Host),
    /// A container's, or that of another host in the same PID namespace.
    Other,
    /// This process may not examine it.
    Denied,
}

/// The running processes. Callers list them again for each area: programs that run in between
/// take seconds, in which a daemon may restart.
pub(crate) fn processes(host: &Host) -> Vec<Process> {
    let names = host.list("/proc");
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter_map(|pid| process(host, pid)).collect()
}

/// Whether all processes of the host are visible, as far as known. If `hidepid` (`proc(5)`) hides
/// processes of other users, it hides the first process, too. In a container with a PID namespace
/// of its own, the first process is another one.
pub(crate) fn all_are_seen(host: &Host) -> bool {
    let first = host.text_if_readable("/proc/1/comm");
    first.is_some_and(|name| {
        INITS.contains(&name.trim()) || pid_namespace(host, 1).as_deref() == Some(ALL_PROCESSES)
    })
}

/// The PID namespace of a process, `pid:[4026531836]`; `None` if it cannot be read.
pub(crate) fn pid_namespace(host: &Host, pid: u32) -> Option<String> {
    let link = fs::read_link(host.resolve(format!("/proc/{pid}/ns/pid"))).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Whether the host is running, instead of being only a copy of its files.
pub(crate) fn is_live(host: &Host) -> bool {
    let proc = host.resolve_target("/proc").metadata();
    proc.is_ok_and(|found| found.ino() == PROC_ROOT)
}

fn process(host: &Host, pid: u32) -> Option<Process> {
    let dir = host.resolve(format!("/proc/{pid}"));
    let uid = dir.metadata().ok()?.uid();
    let name = host.text_if_readable(&format!("/proc/{pid}/comm"))?;
    Some(Process {
        pid,
        name: name.trim_end().to_owned(),
        uid,
    })
}

/// The root directory of a process. A process belongs to this host if it has the same root
/// directory and the same `/run`, and thus the same sockets. Its mount namespace is no
/// criterion: a debug pod has another one than the host, and a process with a mount of its own
/// is exactly what the doctor must find.
pub(crate) fn process_root(host: &Host, pid: u32) -> ProcessRoot {
    let link = host.resolve(format!("/proc/{pid}/root"));
    let top = match link.join(".").metadata() {
        Ok(found) => FileId::new(&found),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return ProcessRoot::Denied;
        }
        Err(_) => return ProcessRoot::Other,
    };
    let Ok(seen) = Host::open(&link) else {
        return ProcessRoot::Other;
    };
    let own = host.root().metadata().ok();
    let same_top = own.is_some_and(|found| FileId::new(&found) == top);
    if same_top && seen.id(RUN) == host.id(RUN) {
        ProcessRoot::Host(seen)
    } else {
        ProcessRoot::Other
    }
}

/// The arguments of a process, its own name first; empty for a zombie. `None` if there is no
/// such process.
pub(crate) fn arguments(host: &Host, pid: u32) -> io::Result<Option<Vec<String>>> {
    let text = host.read_text(&format!("/proc/{pid}/cmdline"))?;
    Ok(text.map(|text| match text.as_str() {
        "" => vec![],
        text => {
            let arguments = text.trim_end_matches('\0').split('\0');
            arguments.map(str::to_owned).collect()
        }
    }))
}

/// The configuration that a command line names, also as `-cFILE`.
pub(crate) fn config_option(arguments: &[String]) -> Option<&str> {
    last_value(arguments, &CONFIG_OPTIONS, |argument| {
        let value = argument.strip_prefix("-c");
        value.filter(|_| !argument.starts_with("-co"))
    })
}

/// The value of an option, by any of its long or short names.
pub(crate) fn option<'a>(arguments: &'a [String], names: &[&str]) -> Option<&'a str> {
    last_value(arguments, names, |_| None)
}

/// The last value of an option, which is the one that programs use. `attached`: the value in an
/// argument that is neither a name nor `NAME=VALUE`.
fn last_value<'a>(
    arguments: &'a [String],
    names: &[&str],
    attached: impl Fn(&'a str) -> Option<&'a str>,
) -> Option<&'a str> {
    let mut arguments = arguments.iter().skip(1).map(String::as_str);
    let mut found = None;
    while let Some(argument) = arguments.next() {
        if names.contains(&argument) {
            found = arguments.next().or(found);
        } else if let Some((name, value)) = argument.split_once('=')
            && names.contains(&name)
        {
            found = Some(value);
        } else {
            found = attached(argument).or(found);
        }
    }
    found
}

/// The running kubelet plugins of a driver and their arguments.
pub(crate) fn plugins(host: &Host, driver: DraDriver) -> impl Iterator<Item = (u32, Vec<String>)> {
    let program = driver.program();
    let named = processes(host)
        .into_iter()
        .filter(|it| program.get(..NAME_LEN) == Some(&it.name));
    named.filter_map(move |process| {
        let arguments = arguments(host, process.pid).ok()??;
        // The name of a ComputeDomain plugin is also that of the controller.
        let is_plugin = arguments.first()?.ends_with(program);
        is_plugin.then_some((process.pid, arguments))
    })
}

// === impl Process ===

impl Process {
    /// Name and number, for a message.
    pub(crate) fn label(&self) -> String {
        format!("{} (process {})", self.name, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_the_config_option_are_parsed() {
        for (line, found) in [
            ("nvidia-imex", None),
            ("nvidia-imex -c /a", Some("/a")),
            ("nvidia-imex -p 1 -c/a", Some("/a")),
            ("nvidia-imex --config /a", Some("/a")),
            ("nvidia-imex --config=/a --nogpu", Some("/a")),
            ("nvidia-imex --config-file=/a", Some("/a")),
            ("nvidia-imex -c /a -c /b", Some("/b")),
            ("nvidia-imex -c", None),
            ("containerd -c=/a --root /b", Some("/a")),
            ("containerd --log-level info --config=/a", Some("/a")),
            ("-c /a", None),
        ] {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(config_option(&arguments), found, "{line}");
        }
    }
}
