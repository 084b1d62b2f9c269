//! What a host's CDI specs make of names that somebody else will look up, later and by
//! settings of his own.
//!
//! Which file wins is not asked: directories and their order are the other's setting. The
//! device nodes of all files that define a name count.
//!
//! What cannot be read *here* may be read by the runtime: then it is not known what a name is.
//!
//! | file | names that are not known |
//! |---|---|
//! | a link that leads out of the directory, one that is longer than any spec, one of a newer version of CDI | all |
//! | one that is no valid spec here, also because versions of CDI's library in Go read it differently | those of each kind that is written in it; all if it may hide its kind (escapes, tags, UTF-16) |
//! | one without devices or of too low a version, which all readers refuse; a pipe, a directory | none |

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use dra_common::error_chain;

use crate::edits::DeviceNode;
use crate::names::{DeviceName, Kind, QualifiedName};
use crate::registry::{DirError, DirState, LoadError, Registry, SpecDir, SpecFile, Unread};

/// Names of CDI devices whose devices their kind does not tell: of all kinds but that of
/// claims, whose devices have their channel in their name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenNames(BTreeMap<Kind, BTreeSet<DeviceName>>);

/// What all specs together say of [`OpenNames`]. If [`Spec::parse`](crate::Spec::parse) rejects
/// a file, the names of each kind that is written in it are *open*: the runtime may read it.
/// They are open for every kind if the text may hide its kind (escapes, tags, UTF-16).
#[derive(Debug, Clone, Default)]
pub struct DefinedNodes {
    nodes: BTreeMap<QualifiedName, Vec<DeviceNode>>,
    /// Of which names there may be more than `nodes` says, and why.
    open: Vec<(Unread, String)>,
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
            open: vec![(Unread::Anything, reason.into())],
            ..Self::default()
        }
    }

    /// What the files of `registry` say of these names.
    // req: NRI-16, NRI-21
    pub fn read(registry: &Registry, names: &OpenNames) -> Self {
        let unlisted = registry.dirs().iter().filter_map(unlisted);
        let mut found = Self {
            open: unlisted.map(|reason| (Unread::Anything, reason)).collect(),
            ..Self::default()
        };
        for file in registry.files() {
            if file.unread != Unread::Nothing {
                let reason = read_elsewhere(file);
                found
                    .open
                    .extend(reason.map(|it| (file.unread.clone(), it)));
            }
            let Ok(spec) = &file.spec else {
                continue;
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
        let may_be_more = |unread: &Unread| names.0.keys().any(|kind| unread.may_have(kind));
        let mut open = self.open.iter();
        let (_, reason) = open.find(|(unread, _)| may_be_more(unread))?;
        Some(reason)
    }
}

fn unlisted(dir: &SpecDir) -> Option<String> {
    match &dir.state {
        DirState::Skipped(error @ DirError::Unlistable { .. }) => {
            Some(format!("{} ({})", error_chain(error), error.hint()))
        }
        // Runtimes do not read these either.
        _ => None,
    }
}

/// Why a runtime may have a file, or have more of it, and what to do.
fn read_elsewhere(file: &SpecFile) -> Option<String> {
    let error = file.spec.as_ref().err()?;
    Some(match error {
        LoadError::Invalid { .. } => format!(
            "{}, and a runtime may read it otherwise ({})",
            error_chain(error),
            error.hint()
        ),
        // The link's target may be there for the runtime, whose root is the host's.
        LoadError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            format!(
                "{}: it is a link, whose target may be there on the host, outside of what this program \
                 sees (put a copy of the file in place of the link, or mount the target's directory \
                 at the same path; remove the link if the host has no target)",
                error_chain(error)
            )
        }
        error => format!("{} ({})", error_chain(error), error.hint()),
    })
}
