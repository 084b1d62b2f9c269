//! Whether a runtime notices a new spec: mounts over the CDI directories, and
//! the kernel's limits on watching.

use std::collections::BTreeMap;
use std::fs;

use imex_cdi::Registry;

use super::files::{Files, Process};
use super::finding::{Checked, Finding};

const INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";
const WATCHES: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The kernel's own default; runtimes watch a directory each for CDI, CNI and
/// the like, and kubelet every log.
const FEW_INSTANCES: u64 = 128;
const FEW_WATCHES: u64 = 8192;

/// The programs that keep a cache of CDI specs.
const RUNTIMES: [&str; 3] = ["containerd", "crio", "dockerd"];

/// What is mounted on a directory: device and root of the mount.
type MountedOn = Option<String>;

pub(super) fn check(files: &Files, registry: &Registry) -> Checked {
    let processes = files.processes();
    let mut findings = Vec::new();
    for dir in registry.dirs() {
        findings.extend(of_mounts(files, &files.shown(&dir.path), &processes));
    }
    let (summary, limits) = of_limits(files, &processes);
    findings.extend(limits);
    Checked::new(summary, findings)
}

/// A runtime that is in another mount namespace, or whose watch lies below a
/// later mount, has other specs than the host.
fn of_mounts(files: &Files, dir: &str, processes: &[Process]) -> Option<Finding> {
    let host = mounted_on(files, 1, &real(files, dir))?;
    let runtimes = processes
        .iter()
        .filter(|process| RUNTIMES.contains(&process.name.as_str()));
    for Process { pid, name, .. } in runtimes {
        let Some(own) = mounted_on(files, *pid, &real(files, dir)) else {
            continue;
        };
        // One in a container has a root, and CDI directories, of its own.
        let is_hosts = mounted_on(files, *pid, "/") == mounted_on(files, 1, "/");
        if is_hosts && own != host {
            let what = |it: &MountedOn| it.clone().unwrap_or_else(|| "no mount".to_owned());
            return Some(Finding::error(
                "cdi-directory-other-mount",
                dir,
                format!(
                    "the host has {} there, {name} (process {pid}) has {}: it reads other specs",
                    what(&host),
                    what(&own)
                ),
                format!("restart {name}, so that it sees the mount"),
            ));
        }
    }
    host.map(|mount| {
        Finding::info(
            "cdi-directory-mounted",
            dir,
            format!("it is a mount of its own ({mount}); a runtime that was started before watches the directory below it"),
            "if new specs are not noticed, restart the container runtime",
        )
    })
}

/// `dir` without links, as the kernel lists mounts.
fn real(files: &Files, dir: &str) -> String {
    if files.is_this_host() {
        let real = fs::canonicalize(dir);
        return real.map_or_else(|_| dir.to_owned(), |real| real.display().to_string());
    }
    files.shown(&files.at(dir))
}

/// What a process sees mounted exactly there; the outer `None` if that cannot
/// be told.
fn mounted_on(files: &Files, pid: u32, dir: &str) -> Option<MountedOn> {
    let text = files.text_if_any(&format!("/proc/{pid}/mountinfo"))?;
    let mut mounts = text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        (point == dir).then(|| format!("device {device}, directory {root}"))
    });
    Some(mounts.next_back())
}

fn of_limits(files: &Files, processes: &[Process]) -> (String, Vec<Finding>) {
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
fn most_instances(files: &Files, processes: &[Process]) -> u64 {
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
