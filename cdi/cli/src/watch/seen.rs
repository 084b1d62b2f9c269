//! What one look at the CDI directories saw, and what differs from another.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use compute_domain_node::with_sources;
use imex_cdi::{DirState, Registry, Spec, SpecDir};

use super::event::{Event, What};
use crate::args::SpecDirs;
use crate::document::DocumentError;
use crate::host::Host;
use crate::host_node::{NodeReport, NodeState, nodes_of};

/// Nothing, until something was looked at.
#[derive(Debug, Default)]
pub(super) struct Seen {
    dirs: BTreeMap<String, Dir>,
    /// Those that resolve.
    devices: BTreeMap<String, Device>,
    troubles: BTreeMap<(What, String), Trouble>,
}

#[derive(Debug, PartialEq, Eq)]
enum Dir {
    Absent,
    There(Which),
    Skipped(String),
}

/// Which directory stands at a path. Nothing is held open for it: that would
/// keep the host from unmounting what is mounted there.
#[derive(Debug, PartialEq, Eq)]
struct Which {
    device: u64,
    inode: u64,
    /// A number that became free is given to the next file that is made. File
    /// systems that do not tell this number their files upwards.
    made: Option<SystemTime>,
}

#[derive(Debug, PartialEq)]
struct Device {
    file: String,
    spec: Arc<Spec>,
}

#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    message: String,
    fix: String,
}

// === impl Seen ===

impl Seen {
    pub(super) fn look(specs: &SpecDirs) -> Result<Self, DocumentError> {
        let registry = specs.registry()?;
        let host = specs.host()?;
        let dirs = registry.dirs().iter();
        let devices = registry.devices().map(|found| {
            let file = found.file.path.display().to_string();
            let spec = Arc::clone(found.spec);
            (found.name().to_string(), Device { file, spec })
        });
        Ok(Self {
            dirs: dirs
                .map(|dir| (dir.path.display().to_string(), Dir::of(dir)))
                .collect(),
            devices: devices.collect(),
            troubles: troubles(&registry, &host),
        })
    }

    /// What has happened since `before`.
    pub(super) fn since(&self, before: &Self) -> Vec<Event> {
        let mut events = self.of_dirs(before);
        events.extend(self.of_devices(before));
        events.extend(self.of_troubles(before));
        events.sort_by(|a, b| (a.what, &a.subject).cmp(&(b.what, &b.subject)));
        events
    }

    fn of_dirs(&self, before: &Self) -> Vec<Event> {
        let changed = self.dirs.iter().filter_map(|(path, dir)| {
            let old = before.dirs.get(path);
            (old != Some(dir)).then(|| Event::told(What::Directory, path, dir.told(old)))
        });
        changed.collect()
    }

    fn of_devices(&self, before: &Self) -> Vec<Event> {
        let gone = before.devices.iter();
        let gone = gone.filter(|(name, _)| !self.devices.contains_key(*name));
        let gone = gone.map(|(name, device)| Event::of_device(What::Remove, name, &device.file));
        let come = self.devices.iter().filter_map(|(name, device)| {
            let what = match before.devices.get(name) {
                None => What::Add,
                Some(old) if old != device => What::Change,
                Some(_) => return None,
            };
            Some(Event::of_device(what, name, &device.file))
        });
        gone.chain(come).collect()
    }

    fn of_troubles(&self, before: &Self) -> Vec<Event> {
        let ended = before.troubles.keys();
        let ended = ended.filter(|trouble| !self.troubles.contains_key(*trouble));
        let ended = ended.map(|(what, subject)| {
            let message = format!("no longer: {}", what.word());
            Event::told(What::Settled, subject, &message)
        });
        let new = self.troubles.iter().filter_map(|(key, trouble)| {
            let (what, subject) = key;
            let told = Event::told(*what, subject, &trouble.message).with_fix(&trouble.fix);
            (before.troubles.get(key) != Some(trouble)).then_some(told)
        });
        ended.chain(new).collect()
    }
}

fn troubles(registry: &Registry, host: &Host) -> BTreeMap<(What, String), Trouble> {
    let mut troubles = BTreeMap::new();
    for conflict in registry.conflicts() {
        let key = (What::Conflict, conflict.name.to_string());
        troubles.insert(key, Trouble::new(conflict.to_string(), conflict.hint()));
    }
    for file in registry.files() {
        let path = file.path.display().to_string();
        let spec = match &file.spec {
            Ok(spec) => spec,
            Err(error) => {
                let trouble = Trouble::new(with_sources(error), error.hint());
                troubles.insert((What::Refused, path), trouble);
                continue;
            }
        };
        let reports = nodes_of(spec).map(|node| NodeReport::of(spec, node, host));
        let mut stale = reports.filter(|report| report.state == NodeState::Stale);
        if let Some(report) = stale.next() {
            let message = report.message.unwrap_or_default();
            let trouble = Trouble::new(message, report.fix.unwrap_or_default());
            troubles.insert((What::Stale, path), trouble);
        }
    }
    troubles
}

// === impl Dir ===

impl Dir {
    fn of(dir: &SpecDir) -> Self {
        match &dir.state {
            DirState::Absent => Self::Absent,
            DirState::Skipped(error) => Self::Skipped(with_sources(error)),
            // One that goes between the two looks is gone.
            DirState::Listed => Which::at(&dir.path).map_or(Self::Absent, Self::There),
        }
    }

    fn told(&self, before: Option<&Self>) -> &str {
        match (self, before) {
            (Self::Absent, _) => "it does not exist",
            (Self::Skipped(error), _) => error,
            (Self::There(..), None) => "it is read",
            (Self::There(..), Some(Self::There(..))) => {
                "another directory stands at its path: what watched the first sees nothing of it"
            }
            (Self::There(..), Some(_)) => "it is there now",
        }
    }
}

// === impl Which ===

impl Which {
    fn at(path: &Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            made: found.created().ok(),
        })
    }
}

// === impl Trouble ===

impl Trouble {
    fn new(message: String, fix: &str) -> Self {
        Self {
            message,
            fix: fix.to_owned(),
        }
    }
}

// === impl What ===

impl What {
    fn word(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Remove => "remove",
            Self::Settled => "settled",
            Self::Add => "add",
            Self::Change => "change",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Stale => "stale",
        }
    }
}
