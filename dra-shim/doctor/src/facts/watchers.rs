//! The CDI directories as seen by runtimes, and the kernel's limits on watching them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{self, Path, PathBuf};

use imex_cdi::Registry;

use crate::host::{FileId, Host};
use crate::processes::{Process, ProcessRoot, process_root, processes};

pub(crate) const MAX_INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";
pub(crate) const MAX_WATCHES: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The programs that keep a cache of CDI specs.
const RUNTIMES: [&str; 3] = ["containerd", "crio", "dockerd"];

/// Each runtime process's view of the CDI directories, and the inotify limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatcherFacts {
    /// The CDI directories, lowest priority first.
    pub directories: Vec<WatchedDirectory>,
    /// The processes of this host's runtimes.
    pub runtimes: Vec<RuntimeView>,
    /// Processes with a runtime's name that this process may not examine.
    pub unreadable: Vec<Process>,
    /// The kernel's limit on inotify instances of one user.
    pub max_instances: Option<u64>,
    /// The kernel's limit on inotify watches of one user.
    pub max_watches: Option<u64>,
    /// The inotify instances of the user with the most, among the processes that could be
    /// examined.
    pub most_instances: u64,
}

/// A CDI directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedDirectory {
    /// Its absolute path.
    pub path: String,
    /// The file that the host has there.
    pub id: Option<FileId>,
}

/// A runtime's process and its view of the CDI directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeView {
    /// The process.
    pub process: Process,
    /// Its view of each directory, in the same order.
    pub directories: Vec<DirectoryView>,
    /// The inodes that it watches; `None` if unknown.
    pub watched: Option<BTreeSet<u64>>,
}

/// A process's view of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryView {
    /// The file that it has at the directory's path.
    pub id: Option<FileId>,
    /// The device and directory that are mounted exactly at that path, if any.
    pub mount: Option<String>,
}

// === impl WatcherFacts ===

impl WatcherFacts {
    pub(crate) fn read(host: &Host, registry: &Registry) -> Self {
        let dirs = registry.dirs().iter();
        let directories: Vec<_> = dirs
            .map(|dir| WatchedDirectory::read(host, &dir.path))
            .collect();
        let processes = processes(host);
        let (mut runtimes, mut unreadable) = (Vec::new(), Vec::new());
        let named = processes
            .iter()
            .filter(|process| RUNTIMES.contains(&process.name.as_str()));
        for process in named {
            match process_root(host, process.pid) {
                ProcessRoot::Host(seen) => {
                    runtimes.push(RuntimeView::read(host, process, &seen, &directories));
                }
                ProcessRoot::Other => {}
                ProcessRoot::Denied => unreadable.push(process.clone()),
            }
        }
        let number = |path| host.text_if_readable(path)?.trim().parse().ok();
        Self {
            directories,
            runtimes,
            unreadable,
            max_instances: number(MAX_INSTANCES),
            max_watches: number(MAX_WATCHES),
            most_instances: most_instances(host, &processes),
        }
    }
}

// === impl WatchedDirectory ===

impl WatchedDirectory {
    fn read(host: &Host, at: &Path) -> Self {
        let name = host.host_name(at);
        // Another process has another working directory.
        let path = path::absolute(&name).unwrap_or_else(|_| name.into());
        let path = path.to_string_lossy().into_owned();
        let id = host.id(&path);
        Self { path, id }
    }
}

// === impl RuntimeView ===

impl RuntimeView {
    fn read(host: &Host, process: &Process, seen: &Host, directories: &[WatchedDirectory]) -> Self {
        let mounts = host.text_if_readable(&format!("/proc/{}/mountinfo", process.pid));
        let mounts = mounts.unwrap_or_default();
        let directories = directories.iter().map(|directory| DirectoryView {
            id: seen.id(&directory.path),
            mount: mount_at(&mounts, &resolved(seen, &directory.path)),
        });
        Self {
            process: process.clone(),
            directories: directories.collect(),
            watched: watched(host, process.pid),
        }
    }
}

/// The device and directory that are mounted exactly at `path`, from a `mountinfo`.
fn mount_at(mounts: &str, path: &Path) -> Option<String> {
    let mut mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        (Path::new(point) == path).then(|| format!("device {device}, directory {root}"))
    });
    mounts.next_back()
}

/// `dir` with links resolved, as in the kernel's list of mounts.
fn resolved(host: &Host, dir: &str) -> PathBuf {
    let at = host.resolve(dir);
    let inside = at.strip_prefix(host.root());
    inside.map_or_else(|_| PathBuf::from(dir), |inside| Path::new("/").join(inside))
}

/// The watched inodes, from lines `inotify wd:1 ino:2c0e sdev:800001 mask:...` in the process's
/// `fdinfo`.
fn watched(host: &Host, pid: u32) -> Option<BTreeSet<u64>> {
    let dir = format!("/proc/{pid}/fdinfo");
    let descriptors = host.list(&dir);
    let texts = descriptors
        .iter()
        .filter_map(|name| host.text_if_readable(&format!("{dir}/{name}")));
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let watches = lines.filter_map(|line| line.strip_prefix("inotify "));
    let inodes = watches.filter_map(|watch| {
        let inode = watch.split(' ').find_map(|it| it.strip_prefix("ino:"))?;
        u64::from_str_radix(inode, 16).ok()
    });
    (!texts.is_empty()).then(|| inodes.collect())
}

/// The most inotify instances of one user. Each is a descriptor that links to
/// `anon_inode:inotify`.
fn most_instances(host: &Host, processes: &[Process]) -> u64 {
    let mut by_user: BTreeMap<u32, u64> = BTreeMap::new();
    for process in processes {
        let dir = host.resolve(format!("/proc/{}/fd", process.pid));
        let open = fs::read_dir(dir).into_iter().flatten().flatten();
        let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        let inotify = links.filter(|link| link.as_os_str() == "anon_inode:inotify");
        let count = u64::try_from(inotify.count()).unwrap_or(u64::MAX);
        *by_user.entry(process.uid).or_default() += count;
    }
    by_user.into_values().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_at_a_path_is_the_visible_one() {
        let mounts = "1 0 8:1 / / rw\n2 1 8:2 /a /var/run/cdi rw\n3 1 8:3 /b /var/run/cdi rw\n";
        let found = mount_at(mounts, Path::new("/var/run/cdi"));
        assert_eq!(found.as_deref(), Some("device 8:3, directory /b"));
        assert_eq!(mount_at(mounts, Path::new("/var/run")), None);
    }
}
