//! The state of the CDI directories at one moment, and what has changed since
//! another.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use compute_domain_node::error_chain;
use host_doctor::{Host, NodeReport, NodeState, device_nodes};
use imex_cdi::{DirState, Registry, Spec, SpecDir};

use super::event::{Event, EventKind};
use crate::host_specs::HostSpecs;

/// Empty by default, so that everything is new since then.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    dirs: BTreeMap<String, Dir>,
    /// The devices that resolve, ascending by name.
    devices: Vec<(String, Device)>,
    problems: BTreeMap<(EventKind, String), Problem>,
}

#[derive(Debug, PartialEq, Eq)]
enum Dir {
    Absent,
    Listed(DirId),
    Skipped(String),
}

/// Identifies the directory at a path. No descriptor is kept open for that: it
/// would keep the host from unmounting what is mounted there.
#[derive(Debug, PartialEq, Eq)]
struct DirId {
    device: u64,
    inode: u64,
    /// Tells a directory from a later one that got its inode number. File systems
    /// without creation times do not reuse numbers.
    created: Option<SystemTime>,
}

#[derive(Debug, PartialEq)]
struct Device {
    /// Shared by all devices of the file.
    file: Arc<str>,
    spec: Arc<Spec>,
}

#[derive(Debug, PartialEq, Eq)]
struct Problem {
    message: String,
    fix: String,
}

// === impl Snapshot ===

impl Snapshot {
    pub(super) fn take(specs: &HostSpecs) -> Self {
        let registry = specs.registry();
        let host = specs.host();
        let dirs = registry.dirs().iter();
        let mut names: BTreeMap<&Path, Arc<str>> = BTreeMap::new();
        let mut devices = Vec::with_capacity(registry.devices().count());
        devices.extend(registry.devices().map(|found| {
            let path = &found.file.path;
            let name = names.entry(path);
            let file = Arc::clone(name.or_insert_with(|| path.display().to_string().into()));
            let spec = Arc::clone(found.spec);
            (found.name().to_string(), Device { file, spec })
        }));
        // A registry sorts by kind first.
        devices.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            dirs: dirs
                .map(|dir| (dir.path.display().to_string(), Dir::new(dir)))
                .collect(),
            devices,
            problems: problems(&registry, &host),
        }
    }

    /// The changes since `before`.
    pub(super) fn since<'a>(&'a self, before: &'a Self) -> Vec<Event<'a>> {
        let dirs = self.dir_events(before);
        let devices = self.device_events(before);
        let events = dirs.chain(devices).chain(self.problem_events(before));
        let mut all = Vec::with_capacity(events.clone().count());
        all.extend(events);
        // None has the kind and the subject of another.
        all.sort_unstable_by(|a, b| (a.kind, a.subject).cmp(&(b.kind, b.subject)));
        all
    }

    fn dir_events<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = Event<'a>> + Clone {
        self.dirs.iter().filter_map(|(path, dir)| {
            let old = before.dirs.get(path);
            let event =
                || Event::new(EventKind::Directory, path).with_message(dir.describe_change(old));
            (old != Some(dir)).then(event)
        })
    }

    fn device_events<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = Event<'a>> + Clone {
        let removed = before.devices.iter();
        let removed = removed.filter(|(name, _)| self.device(name).is_none());
        let removed =
            removed.map(|(name, device)| Event::device(EventKind::Remove, name, &device.file));
        let changed = self.devices.iter().filter_map(|(name, device)| {
            let kind = match before.device(name) {
                None => EventKind::Add,
                Some(old) if old != device => EventKind::Change,
                Some(_) => return None,
            };
            Some(Event::device(kind, name, &device.file))
        });
        removed.chain(changed)
    }

    fn device(&self, name: &str) -> Option<&Device> {
        let devices = &self.devices;
        let at = devices.binary_search_by(|(other, _)| other.as_str().cmp(name));
        at.ok()
            .and_then(|at| devices.get(at))
            .map(|(_, device)| device)
    }

    fn problem_events<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = Event<'a>> + Clone {
        let settled = before.problems.keys();
        let settled = settled.filter(|key| !self.problems.contains_key(*key));
        let settled = settled.map(|(kind, subject)| {
            let message = format!("no longer: {}", kind.as_str());
            Event::new(EventKind::Settled, subject).with_message(message)
        });
        let new = self.problems.iter();
        let new = new.filter(|(key, problem)| before.problems.get(key) != Some(problem));
        let new = new.map(|((kind, subject), problem)| {
            let event = Event::new(*kind, subject);
            event.with_message(&*problem.message).with_fix(&problem.fix)
        });
        settled.chain(new)
    }
}

fn problems(registry: &Registry, host: &Host) -> BTreeMap<(EventKind, String), Problem> {
    let mut problems = BTreeMap::new();
    for conflict in registry.conflicts() {
        let key = (EventKind::Conflict, conflict.name.to_string());
        problems.insert(key, Problem::new(conflict.to_string(), conflict.hint()));
    }
    for file in registry.files() {
        let path = file.path.display().to_string();
        let spec = match &file.spec {
            Ok(spec) => spec,
            Err(error) => {
                let problem = Problem::new(error_chain(error), error.hint());
                problems.insert((EventKind::Refused, path), problem);
                continue;
            }
        };
        let reports = device_nodes(spec).map(|node| NodeReport::new(spec, node, host));
        let mut stale = reports.filter(|report| report.state == NodeState::Stale);
        if let Some(report) = stale.next() {
            let message = report.message.unwrap_or_default();
            let problem = Problem::new(message, report.fix.unwrap_or_default());
            problems.insert((EventKind::Stale, path), problem);
        }
    }
    problems
}

// === impl Dir ===

impl Dir {
    fn new(dir: &SpecDir) -> Self {
        match &dir.state {
            DirState::Absent => Self::Absent,
            DirState::Skipped(error) => Self::Skipped(error_chain(error)),
            // Or it was removed after it was listed.
            DirState::Listed => DirId::of(&dir.path).map_or(Self::Absent, Self::Listed),
        }
    }

    fn describe_change(&self, before: Option<&Self>) -> &str {
        match (self, before) {
            (Self::Absent, _) => "it does not exist",
            (Self::Skipped(error), _) => error,
            (Self::Listed(..), None) => "it is read",
            (Self::Listed(..), Some(Self::Listed(..))) => {
                "another directory is at its path now: a program that watched the old one does not notice changes"
            }
            (Self::Listed(..), Some(_)) => "it exists now",
        }
    }
}

// === impl DirId ===

impl DirId {
    fn of(path: &Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            created: found.created().ok(),
        })
    }
}

// === impl Problem ===

impl Problem {
    fn new(message: String, fix: &str) -> Self {
        Self {
            message,
            fix: fix.to_owned(),
        }
    }
}
