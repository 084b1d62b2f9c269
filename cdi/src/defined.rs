//! What a host's CDI specs make of names that somebody else will look up, later and by
//! settings of his own.
//!
//! Which file wins is not asked: directories and their order are the other's setting. The
//! device nodes of all files that define a name count.
//!
//! A file that is no valid spec defines nothing for runtimes either. One that cannot be read *here*
//! (a link that leads out of the directory, one that is longer than any spec of devices, one of a
//! newer version of CDI) may be read by the runtime: then it is not known what a name is.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use crate::edits::DeviceNode;
use crate::names::{DeviceName, Kind, QualifiedName};
use crate::registry::{DirError, DirState, LoadError, Registry, SpecDir};

/// Names of CDI devices whose devices their kind does not tell: of all kinds but that of
/// claims, whose devices have their channel in their name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenNames(BTreeMap<Kind, BTreeSet<DeviceName>>);

/// What all specs together say of [`OpenNames`].
#[derive(Debug, Clone, Default)]
pub struct DefinedNodes {
    nodes: BTreeMap<QualifiedName, Vec<DeviceNode>>,
    /// Why a name may be more than `nodes` says.
    open: Option<String>,
}

// === impl OpenNames ===

impl OpenNames {
    /// Adds a name. One of a claim's device is left out: containers of claims are to start
    /// whatever is wrong with the specs of others.
    pub fn add(&mut self, name: &QualifiedName) {
        if *name.kind() != Kind::compute_domain_claim() {
            let devices = self.0.entry(name.kind().clone()).or_default();
            devices.insert(name.device().clone());
        }
    }

    /// Adds all of another's.
    pub fn extend(&mut self, other: &Self) {
        for (kind, devices) in &other.0 {
            let known = self.0.entry(kind.clone()).or_default();
            known.extend(devices.iter().cloned());
        }
    }

    /// Whether no spec needs to be read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl DefinedNodes ===

impl DefinedNodes {
    /// Nothing is known, for this reason.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self {
            open: Some(reason.into()),
            ..Self::default()
        }
    }

    /// What the files of `registry` say of these names.
    // req: NRI-16
    pub fn read(registry: &Registry, names: &OpenNames) -> Self {
        let mut found = Self {
            open: registry.dirs().iter().find_map(unlisted),
            ..Self::default()
        };
        for file in registry.files() {
            let spec = match &file.spec {
                Ok(spec) => spec,
                Err(error) => {
                    found.open = found.open.or_else(|| readable_elsewhere(error));
                    continue;
                }
            };
            let Some(asked) = names.0.get(spec.kind()) else {
                continue;
            };
            let devices = spec.devices().iter();
            for device in devices.filter(|device| asked.contains(&device.name)) {
                let name = QualifiedName::new(spec.kind().clone(), device.name.clone());
                let edits = [spec.container_edits(), &device.container_edits];
                let nodes = edits.into_iter().flat_map(|edits| &edits.device_nodes);
                let known = found.nodes.entry(name).or_default();
                known.extend(nodes.cloned());
            }
        }
        found
    }

    /// The device nodes of a device that a spec defines.
    pub fn nodes(&self, name: &QualifiedName) -> Option<Vec<DeviceNode>> {
        self.nodes.get(name).cloned()
    }

    /// Why these names may be more than was read: a file or directory, the reason, and what
    /// to do. Nothing is open where there is no name.
    pub fn open(&self, names: &OpenNames) -> Option<&str> {
        self.open.as_deref().filter(|_| !names.is_empty())
    }
}

fn unlisted(dir: &SpecDir) -> Option<String> {
    match &dir.state {
        DirState::Skipped(error @ DirError::Unlistable { .. }) => {
            Some(format!("{} ({})", chain(error), error.hint()))
        }
        // Runtimes do not read these either.
        _ => None,
    }
}

/// Why a runtime may have a file that is not read here.
fn readable_elsewhere(error: &LoadError) -> Option<String> {
    // One that declares less than it has is refused by runtimes, too.
    let is_newer = error.code() == "cdi-version-unknown";
    let is_nothing = match error {
        LoadError::Invalid { .. } => !is_newer,
        // Opening it would do something, or wait: Go's library reads none of them to an end.
        LoadError::NotAFile { .. } => true,
        _ => false,
    };
    (!is_nothing).then(|| format!("{} ({})", chain(error), error.hint()))
}

/// An error and all its sources, outermost first.
fn chain(error: &dyn Error) -> String {
    let errors = std::iter::successors(Some(error), |&error| error.source());
    let messages: Vec<_> = errors.map(ToString::to_string).collect();
    messages.join(": ")
}
