//! Whether the kubelet plugin is on a node, and whether a process listens on its sockets
//! (`/proc/net/unix`, `proc_pid_net(5)`). A socket's file remains when its process exits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::dra_driver::DraDriver;
use crate::host::{Host, is_absent};
use crate::processes::{all_are_seen, plugins, processes};

/// The flag of a listening socket: `__SO_ACCEPTCON`.
const LISTENS: u32 = 0x10000;

/// The fields before a socket's path.
const FIELDS_BEFORE_PATH: usize = 7;

/// Whether the node has a process or a pod of the driver's plugin. A pod in a crash loop has no
/// process, but kubelet keeps its directory.
pub(super) fn is_deployed(host: &Host, kubelet_root: &str, driver: DraDriver) -> bool {
    let (pods, container) = (format!("{kubelet_root}/pods"), driver.container());
    let is_its_pod = |uid: &String| host.exists(&format!("{pods}/{uid}/containers/{container}"));
    host.list(&pods).iter().any(is_its_pod) || plugins(host, driver).next().is_some()
}

/// The sockets of `dir` that `is_ours`, if no process listens on any of them. `None` if there
/// are none, if a process listens, or if that is unknown.
pub(super) fn without_listener(
    host: &Host,
    dir: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let sockets = sockets(host, dir, is_ours)?;
    let all_deserted = !sockets.is_empty() && sockets.values().all(|is_heard| !is_heard);
    all_deserted.then(|| sockets.into_keys().collect())
}

/// The sockets of `dir` that `is_ours`, on which a process listens. Empty if that is unknown.
pub(super) fn with_listener(host: &Host, dir: &str, is_ours: impl Fn(&str) -> bool) -> Vec<String> {
    let sockets = sockets(host, dir, is_ours).unwrap_or_default();
    let heard = sockets.into_iter().filter(|(_, is_heard)| *is_heard);
    heard.map(|(path, _)| path).collect()
}

/// The paths of the sockets of `dir` that `is_ours`, with whether a process listens. `None` if that is unknown.
fn sockets(
    host: &Host,
    dir: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Option<BTreeMap<String, bool>> {
    let mut names = host.list(dir);
    names.retain(|name| is_ours(name));
    if names.is_empty() {
        return Some(BTreeMap::new());
    }
    let listening = listening(host)?;
    let sockets = names.iter().map(|name| {
        let is_heard = bound_names(name).any(|name| listening.contains(&name));
        (format!("{dir}/{name}"), is_heard)
    });
    Some(sockets.collect())
}

/// The names under which a socket of this name may have been bound; the kernel keeps the bound
/// name. Go's library binds the name itself. This driver's library binds a name with a leading
/// dot and without the part from `@` on, and renames it.
fn bound_names(name: &str) -> impl Iterator<Item = String> {
    let stem = name.split('@').next().unwrap_or(name);
    [name.to_owned(), format!(".{stem}")].into_iter()
}

/// The names of all listening sockets, in every network namespace. A socket's path is relative
/// to the mounts of the listening process, so only its last name is compared. `None` if a
/// namespace cannot be examined, or not all processes of the host are visible.
fn listening(host: &Host) -> Option<BTreeSet<String>> {
    if !all_are_seen(host) {
        return None;
    }
    let mut seen = BTreeSet::new();
    let own = host.text_if_readable("/proc/net/unix");
    let mut tables = Vec::from_iter(own.filter(|_| host.has_own_net()));
    for process in processes(host) {
        let pid = process.pid;
        let namespace = fs::read_link(host.resolve(format!("/proc/{pid}/ns/net")));
        if namespace.is_ok_and(|namespace| !seen.insert(namespace)) {
            continue;
        }
        match host.read_text(&format!("/proc/{pid}/net/unix")) {
            Ok(table) => tables.extend(table),
            Err(error) if has_ended(&error) => {}
            Err(_) => return None,
        }
    }
    let lines = tables.iter().flat_map(|table| table.lines());
    let names = lines.filter_map(listening_name).map(str::to_owned);
    (!tables.is_empty()).then(|| names.collect())
}

/// Whether `/proc` gave the error because the process has exited meanwhile.
fn has_ended(error: &io::Error) -> bool {
    const NO_SUCH_PROCESS: i32 = 3;
    const INVALID: i32 = 22;
    is_absent(error) || matches!(error.raw_os_error(), Some(NO_SUCH_PROCESS | INVALID))
}

/// The name of a listening socket, from `Num: RefCount Protocol Flags Type St Inode Path`.
fn listening_name(line: &str) -> Option<&str> {
    let mut fields = line.split_whitespace();
    let flags = u32::from_str_radix(fields.clone().nth(3)?, 16).ok()?;
    let path = fields.nth(FIELDS_BEFORE_PATH)?;
    let name = Path::new(path).file_name()?.to_str()?;
    (flags & LISTENS != 0).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_listening_sockets_have_a_name() {
        let of = |flags: &str| {
            let line = format!("0000: 00000002 00000000 {flags} 0001 01 21000 /run/a.sock");
            listening_name(&line).map(str::to_owned)
        };
        assert_eq!(of("00010000").as_deref(), Some("a.sock"));
        assert_eq!(of("00000000"), None);
        assert_eq!(
            listening_name("Num RefCount Protocol Flags Type St Inode Path"),
            None
        );
        assert_eq!(listening_name("0000: 2 0 00010000 0001 01 21000"), None);
    }

    #[test]
    fn the_kernel_shows_a_socket_while_a_process_listens_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("driver.sock");
        let own = |text: &str| {
            let names: BTreeSet<&str> = text.lines().filter_map(listening_name).collect();
            names.contains("driver.sock")
        };
        let table = || fs::read_to_string("/proc/self/net/unix").unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        assert!(own(&table()));
        drop(listener);
        assert!(!own(&table()));
    }
}
