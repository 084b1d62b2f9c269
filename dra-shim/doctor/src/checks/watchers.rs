//! Checks that runtimes notice new specs: mounts over the CDI directories, and the kernel's
//! limits on inotify.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `cdi-directory-other-mount` | error | a runtime's process sees another directory at the path than the host |
//! | `cdi-directory-mounted` | warning | the directory is a mount, and the runtime watches another CDI directory but not this one |
//! | `cdi-directory-mounted` | info | the directory is a mount, and the runtime is not known to watch any |
//! | `inotify-instances-exhausted` | warning | a user has at least nine tenths of the inotify instances |
//! | `inotify-limit-low` | warning | a limit is below the kernel's default |

use std::collections::BTreeSet;

use crate::diagnosis::AreaReport;
use crate::facts::watchers::{
    DirectoryView, MAX_INSTANCES, MAX_WATCHES, RuntimeView, WatchedDirectory, WatcherFacts,
};
use crate::finding::Finding;
use crate::host::FileId;
use crate::processes::Process;

/// The kernel's default. Runtimes watch one directory each for CDI, CNI and so on, and kubelet
/// watches every log.
const MIN_INSTANCES: u64 = 128;
/// The kernel's default on hosts with little memory.
const MIN_WATCHES: u64 = 8192;

pub(super) fn check(facts: &WatcherFacts) -> AreaReport {
    let directories = facts.directories.iter().enumerate();
    let mut findings: Vec<Finding> = directories
        .filter_map(|(index, directory)| check_directory(facts, index, directory))
        .collect();
    let agree = findings.is_empty();
    findings.extend(check_instances(facts));
    findings.extend(check_watches(facts));
    AreaReport::new(summary(facts, agree), findings)
}

/// The limits, then what is known of each runtime.
fn summary(facts: &WatcherFacts, agree: bool) -> String {
    let shown = |limit: Option<u64>| limit.map_or_else(|| "?".to_owned(), |it| it.to_string());
    let mut parts = vec![format!(
        "inotify: {} instances, {} watches",
        shown(facts.max_instances),
        shown(facts.max_watches)
    )];
    for process in &facts.unreadable {
        parts.push(format!("{} cannot be examined", process.label()));
    }
    if agree {
        let names = facts.runtimes.iter().map(|it| it.process.name.as_str());
        for name in names.collect::<BTreeSet<&str>>() {
            parts.push(format!("{name} sees the same directories"));
        }
    }
    parts.join("; ")
}

/// Returns at most one finding for a directory: for the first runtime that sees another
/// directory there, else for the first that may not notice new specs in it.
fn check_directory(
    facts: &WatcherFacts,
    index: usize,
    directory: &WatchedDirectory,
) -> Option<Finding> {
    let views = facts.runtimes.iter();
    let mut views = views.filter_map(|runtime| Some((runtime, runtime.directories.get(index)?)));
    let other = views.clone().find(|(_, view)| view.id != directory.id);
    if let Some((runtime, view)) = other {
        return Some(other_mount(directory, &runtime.process, view));
    }
    views.find_map(|(runtime, view)| {
        let mount = view
            .mount
            .as_ref()
            .filter(|_| !watches(runtime, directory))?;
        let mut directories = facts.directories.iter();
        let watched = directories.find(|other| watches(runtime, other));
        Some(mounted(directory, mount, &runtime.process, watched))
    })
}

/// Whether the runtime is seen to watch the directory.
fn watches(runtime: &RuntimeView, directory: &WatchedDirectory) -> bool {
    let watched = runtime.watched.as_ref().zip(directory.id);
    watched.is_some_and(|(inodes, id)| inodes.contains(&id.inode))
}

/// A runtime that sees another directory at the path reads other specs.
fn other_mount(directory: &WatchedDirectory, process: &Process, view: &DirectoryView) -> Finding {
    let shown = |id: Option<FileId>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
    Finding::error(
        "cdi-directory-other-mount",
        &directory.path,
        format!(
            "at this path, the host has {}, but {} sees {} and therefore reads other specs",
            shown(directory.id),
            process.label(),
            shown(view.id)
        ),
        format!("restart {}, so that it sees the mount", process.name),
    )
}

/// A runtime whose watch is hidden below a later mount notices no new specs. A runtime that
/// watches another CDI directory is known to use watches for CDI.
fn mounted(
    directory: &WatchedDirectory,
    mount: &str,
    process: &Process,
    watched: Option<&WatchedDirectory>,
) -> Finding {
    let (id, path) = ("cdi-directory-mounted", &directory.path);
    let name = &process.name;
    let process = process.label();
    match watched {
        Some(other) => Finding::warning(
            id,
            path,
            format!(
                "this directory is a mount ({mount}), and {process} watches {}, but not this directory. If {name} started before the mount existed, {name} notices no new specs here",
                other.path
            ),
            format!("restart {name}"),
        ),
        None => Finding::info(
            id,
            path,
            format!(
                "this directory is a mount ({mount}), and doctor cannot see whether {process} watches it. If {name} started before the mount existed, {name} may not notice new specs here"
            ),
            format!("if {name} does not notice new specs, restart {name}"),
        ),
    }
}

/// A runtime that gets no instance falls back to reading every spec for every
/// container, or keeps its cached specs.
fn check_instances(facts: &WatcherFacts) -> Option<Finding> {
    let (limit, used) = (facts.max_instances?, facts.most_instances);
    let (id, evidence) = if used.saturating_mul(10) >= limit.saturating_mul(9) {
        (
            "inotify-instances-exhausted",
            format!(
                "one user has {used} of {limit} inotify instances: a runtime that gets no instance rereads all specs for every container, or never notices new specs"
            ),
        )
    } else if limit < MIN_INSTANCES {
        (
            "inotify-limit-low",
            format!("the limit is {limit}, less than the kernel's default of {MIN_INSTANCES}"),
        )
    } else {
        return None;
    };
    let fix = "sysctl -w fs.inotify.max_user_instances=1024";
    Some(Finding::warning(id, MAX_INSTANCES, evidence, fix))
}

fn check_watches(facts: &WatcherFacts) -> Option<Finding> {
    let limit = facts.max_watches.filter(|limit| *limit < MIN_WATCHES)?;
    Some(Finding::warning(
        "inotify-limit-low",
        MAX_WATCHES,
        format!("the limit is {limit}: a runtime that cannot create a watch keeps using old specs"),
        "sysctl -w fs.inotify.max_user_watches=65536",
    ))
}

#[cfg(test)]
mod tests {
    use crate::finding::Severity;

    use super::*;

    const ID: FileId = FileId {
        device: 1,
        inode: 7,
    };

    /// One directory, and containerd, which sees the same and watches it.
    fn facts() -> WatcherFacts {
        WatcherFacts {
            directories: vec![WatchedDirectory {
                path: "/var/run/cdi".to_owned(),
                id: Some(ID),
            }],
            runtimes: vec![RuntimeView {
                process: Process {
                    pid: 10,
                    name: "containerd".to_owned(),
                    uid: 0,
                },
                directories: vec![DirectoryView {
                    id: Some(ID),
                    mount: Some("device 0:30, directory /".to_owned()),
                }],
                watched: Some([7].into()),
            }],
            unreadable: vec![],
            max_instances: Some(1024),
            max_watches: Some(65536),
            most_instances: 3,
        }
    }

    fn ids(facts: &WatcherFacts) -> Vec<(&'static str, Severity)> {
        let findings = check(facts).findings.into_iter();
        findings.map(|it| (it.id, it.severity)).collect()
    }

    #[test]
    fn a_runtime_that_watches_the_same_directory_has_no_finding() {
        assert_eq!(ids(&facts()), []);
        let summary =
            "inotify: 1024 instances, 65536 watches; containerd sees the same directories";
        assert_eq!(check(&facts()).summary, summary);
    }

    #[test]
    fn another_directory_at_the_path_is_an_error_and_an_unseen_watch_is_not() {
        let mut other = facts();
        other.runtimes[0].directories[0].id = None;
        assert_eq!(
            ids(&other),
            [("cdi-directory-other-mount", Severity::Error)]
        );
        let mut unwatched = facts();
        unwatched.runtimes[0].watched = None;
        assert_eq!(ids(&unwatched), [("cdi-directory-mounted", Severity::Info)]);
        unwatched.runtimes[0].directories[0].mount = None;
        assert_eq!(ids(&unwatched), []);
    }

    #[test]
    fn nine_tenths_of_the_instances_count_as_exhausted() {
        let mut facts = facts();
        facts.max_instances = Some(100);
        facts.most_instances = 90;
        let exhausted = ("inotify-instances-exhausted", Severity::Warning);
        assert_eq!(ids(&facts), [exhausted]);
        facts.most_instances = 89;
        assert_eq!(ids(&facts), [("inotify-limit-low", Severity::Warning)]);
    }
}
