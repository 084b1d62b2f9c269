//! Whether a runtime notices a new spec: mounts over the CDI directories, and
//! the kernel's limits on watching.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{self, Path, PathBuf};

use imex_cdi::Registry;

use crate::area::AreaReport;
use crate::file_id::FileId;
use crate::files::HostFiles;
use crate::finding::Finding;
use crate::processes::{Process, ProcessRoot, process_root, processes};
use crate::root::Root;

const INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";
const WATCHES: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The kernel's own default; runtimes watch a directory each for CDI, CNI and
/// the like, and kubelet every log.
const FEW_INSTANCES: u64 = 128;
const FEW_WATCHES: u64 = 8192;

/// The programs that keep a cache of CDI specs.
const RUNTIMES: [&str; 3] = ["containerd", "crio", "dockerd"];

/// A CDI directory, and which one the host has there.
struct Dir {
    path: String,
    id: Option<FileId>,
}

/// A runtime's process of this host, and its view of the files.
struct Runtime<'a> {
    process: &'a Process,
    root: Root,
    /// The inodes that it watches; `None` if that cannot be told.
    watched: Option<BTreeSet<u64>>,
}

pub(super) fn check(files: &HostFiles, registry: &Registry) -> AreaReport {
    let processes = processes(files);
    let (runtimes, closed) = runtimes(files, &processes);
    let mut findings = Vec::new();
    let dirs: Vec<Dir> = registry
        .dirs()
        .iter()
        .map(|dir| Dir::new(files, &dir.path))
        .collect();
    for dir in &dirs {
        findings.extend(of_dir(files, dir, &dirs, &runtimes));
    }
    let differs = !findings.is_empty();
    let (mut summary, limits) = of_limits(files, &processes);
    findings.extend(limits);
    for process in closed {
        let told = format!("; {} may not be looked into", process.label());
        summary.push_str(&told);
    }
    if !differs {
        let names: BTreeSet<&str> = runtimes.iter().map(|it| it.process.name.as_str()).collect();
        for name in names {
            let told = format!("; {name} sees the same directories");
            summary.push_str(&told);
        }
    }
    AreaReport::new(summary, findings)
}

/// Those of this host, and those of which that cannot be told.
fn runtimes<'a>(
    files: &HostFiles,
    processes: &'a [Process],
) -> (Vec<Runtime<'a>>, Vec<&'a Process>) {
    let (mut found, mut closed) = (Vec::new(), Vec::new());
    let named = processes
        .iter()
        .filter(|process| RUNTIMES.contains(&process.name.as_str()));
    for process in named {
        match process_root(files, process.pid) {
            ProcessRoot::Host(root) => found.push(Runtime {
                process,
                root,
                watched: watched(files, process.pid),
            }),
            ProcessRoot::Other => {}
            ProcessRoot::Denied => closed.push(process),
        }
    }
    (found, closed)
}

fn of_dir(files: &HostFiles, dir: &Dir, dirs: &[Dir], runtimes: &[Runtime]) -> Option<Finding> {
    let other = runtimes
        .iter()
        .map(|runtime| (runtime.process, FileId::at(&runtime.root, &dir.path)))
        .find(|(_, theirs)| *theirs != dir.id);
    if let Some((process, theirs)) = other {
        return Some(other_mount(dir, process, theirs));
    }
    let mut unwatched = runtimes.iter().filter(|runtime| !runtime.watches(dir));
    unwatched.find_map(|runtime| {
        let mount = mounted_on(files, runtime, &dir.path)?;
        let watched = dirs.iter().find(|dir| runtime.watches(dir));
        Some(mounted(dir, &mount, runtime.process, watched))
    })
}

/// A runtime that has another directory at the path reads other specs.
fn other_mount(dir: &Dir, process: &Process, theirs: Option<FileId>) -> Finding {
    let what = |id: Option<FileId>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
    Finding::error(
        "cdi-directory-other-mount",
        &dir.path,
        format!(
            "the host has {} there, {} has {}: it reads other specs",
            what(dir.id),
            process.label(),
            what(theirs)
        ),
        format!("restart {}, so that it sees the mount", process.name),
    )
}

/// One whose watch lies below a later mount notices no new specs. It has
/// watches for CDI at all if it watches another of the directories.
fn mounted(dir: &Dir, mount: &str, process: &Process, watched: Option<&Dir>) -> Finding {
    let (id, path) = ("cdi-directory-mounted", &dir.path);
    let name = &process.name;
    let process = process.label();
    match watched {
        Some(other) => Finding::warning(
            id,
            path,
            format!(
                "it is a mount of its own ({mount}), and {process} watches {} and not this: if it was started before the mount was made, it watches the directory below, and notices no new specs",
                other.path
            ),
            format!("restart {name}"),
        ),
        None => Finding::info(
            id,
            path,
            format!(
                "it is a mount of its own ({mount}), and {process} is not seen to watch it: if it was started before, it watches the directory below"
            ),
            format!("if new specs are not noticed, restart {name}"),
        ),
    }
}

/// The device and directory that a runtime sees mounted exactly there.
fn mounted_on(files: &HostFiles, runtime: &Runtime, dir: &str) -> Option<String> {
    let real = real(&runtime.root, dir);
    let text = files.text_if_any(&format!("/proc/{}/mountinfo", runtime.process.pid))?;
    let mut mounts = text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        (Path::new(point) == real).then(|| format!("device {device}, directory {root}"))
    });
    mounts.next_back()
}

/// `dir` without links, as the kernel lists mounts.
fn real(root: &Root, dir: &str) -> PathBuf {
    let at = root.path(Path::new(dir));
    let inside = at.strip_prefix(root.as_path());
    inside.map_or_else(|_| PathBuf::from(dir), |inside| Path::new("/").join(inside))
}

/// `inotify wd:1 ino:2c0e sdev:800001 mask:...` in the process's `fdinfo`.
fn watched(files: &HostFiles, pid: u32) -> Option<BTreeSet<u64>> {
    let dir = format!("/proc/{pid}/fdinfo");
    let descriptors = files.names(&dir);
    let texts = descriptors
        .iter()
        .filter_map(|name| files.text_if_any(&format!("{dir}/{name}")));
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let watches = lines.filter_map(|line| line.strip_prefix("inotify "));
    let inodes = watches.filter_map(|watch| {
        let inode = watch.split(' ').find_map(|it| it.strip_prefix("ino:"))?;
        u64::from_str_radix(inode, 16).ok()
    });
    (!texts.is_empty()).then(|| inodes.collect())
}

// === impl Dir ===

impl Dir {
    fn new(files: &HostFiles, at: &Path) -> Self {
        let shown = files.host_name(at);
        // Another process's working directory is another.
        let path = path::absolute(&shown).unwrap_or_else(|_| shown.into());
        let path = path.to_string_lossy().into_owned();
        let id = files.id(&path);
        Self { path, id }
    }
}

// === impl Runtime ===

impl Runtime<'_> {
    /// Whether it is seen to.
    fn watches(&self, dir: &Dir) -> bool {
        let watched = self.watched.as_ref().zip(dir.id);
        watched.is_some_and(|(inodes, id)| inodes.contains(&id.inode))
    }
}

fn of_limits(files: &HostFiles, processes: &[Process]) -> (String, Vec<Finding>) {
    let number = |path| files.text_if_any(path)?.trim().parse::<u64>().ok();
    let (instances, watches) = (number(INSTANCES), number(WATCHES));
    let mut findings = Vec::new();
    if let Some(limit) = instances {
        let used = most_instances(files, processes);
        if used.saturating_mul(10) >= limit.saturating_mul(9) {
            findings.push(few(
                "inotify-instances-exhausted",
                INSTANCES,
                format!("one user has {used} of {limit} instances: a runtime that gets none reads every spec for every container, or never sees new ones"),
                "fs.inotify.max_user_instances=1024",
            ));
        } else if limit < FEW_INSTANCES {
            findings.push(few(
                "inotify-limit-low",
                INSTANCES,
                format!("it is {limit}, less than the kernel's default of {FEW_INSTANCES}"),
                "fs.inotify.max_user_instances=1024",
            ));
        }
    }
    if let Some(limit) = watches.filter(|limit| *limit < FEW_WATCHES) {
        findings.push(few(
            "inotify-limit-low",
            WATCHES,
            format!("it is {limit}: a runtime that gets no watch goes on with old specs"),
            "fs.inotify.max_user_watches=65536",
        ));
    }
    let shown = |limit: Option<u64>| limit.map_or_else(|| "?".to_owned(), |it| it.to_string());
    let summary = format!(
        "inotify: {} instances, {} watches",
        shown(instances),
        shown(watches)
    );
    (summary, findings)
}

fn few(id: &'static str, path: &str, evidence: String, setting: &str) -> Finding {
    Finding::warning(id, path, evidence, format!("sysctl -w {setting}"))
}

/// Of the user who has the most. Only processes that may be looked into count.
fn most_instances(files: &HostFiles, processes: &[Process]) -> u64 {
    let mut by_user: BTreeMap<u32, u64> = BTreeMap::new();
    for process in processes {
        let dir = files.at(&format!("/proc/{}/fd", process.pid));
        let open = fs::read_dir(dir).into_iter().flatten().flatten();
        let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        let inotify = links.filter(|link| link.as_os_str() == "anon_inode:inotify");
        let count = u64::try_from(inotify.count()).unwrap_or(u64::MAX);
        *by_user.entry(process.uid).or_default() += count;
    }
    by_user.into_values().max().unwrap_or(0)
}
