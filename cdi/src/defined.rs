//! Device nodes of CDI names that another program will resolve later, with its own settings.
//!
//! Which file wins depends on that program's directories and their order. So the device nodes of
//! all files that define a name count.
//!
//! A runtime may accept a file that cannot be read *here*: then a name's nodes are unknown.
//!
//! | file | names with unknown nodes |
//! |---|---|
//! | a link that leads out of the directory, a file longer than any spec, a newer version of CDI | all |
//! | an invalid spec, or one that versions of Go's CDI library read differently | those of each kind in its text; all if it may hide its kind (escapes, tags, UTF-16) |
//! | a spec without devices or with too low a version, which all readers refuse; a pipe, a directory | none |

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use dra_common::error_chain;

use crate::edits::DeviceNode;
use crate::names::{DeviceName, Kind, QualifiedName};
use crate::registry::{DirError, DirState, LoadError, Registry, SpecDir, SpecFile, Unread};

/// Names of CDI devices that must be looked up in specs: those of all kinds except claims, whose
/// device names contain the channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnresolvedNames(BTreeMap<Kind, BTreeSet<DeviceName>>);

/// The device nodes that all specs together define for [`UnresolvedNames`]. If
/// [`Spec::parse`](crate::Spec::parse) rejects a file, the names of each kind in its text are
/// *open*: the runtime may accept the file. The names of every kind are open if the text may hide
/// its kind (escapes, tags, UTF-16).
#[derive(Debug, Clone, Default)]
pub struct DefinedNodes {
    nodes: BTreeMap<QualifiedName, Vec<DeviceNode>>,
    /// The names that may have more nodes than in `nodes`, and why.
    open: Vec<(Unread, String)>,
}

// === impl UnresolvedNames ===

impl UnresolvedNames {
    /// Adds a name, unless it is a claim's device: containers with claims must start even if other
    /// drivers' specs are broken.
    pub fn add(&mut self, name: &QualifiedName) {
        if *name.kind() != Kind::compute_domain_claim() {
            let devices = self.0.entry(name.kind().clone()).or_default();
            devices.insert(name.device().clone());
        }
    }

    /// Adds all names of `other`.
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
    /// No name is known, for this reason.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self {
            open: vec![(Unread::Anything, reason.into())],
            ..Self::default()
        }
    }

    /// Reads the device nodes of these names from the files of `registry`.
    // req: NRI-16, NRI-21
    pub fn read(registry: &Registry, names: &UnresolvedNames) -> Self {
        let unlisted = registry.dirs().iter().filter_map(unlisted);
        let mut found = Self {
            open: unlisted.map(|reason| (Unread::Anything, reason)).collect(),
            ..Self::default()
        };
        for file in registry.files() {
            if file.unread != Unread::Nothing {
                let reason = why_readable_elsewhere(file);
                found
                    .open
                    .extend(reason.map(|it| (file.unread.clone(), it)));
            }
            let Ok(spec) = &file.spec else {
                continue;
            };
            let Some(requested) = names.0.get(spec.kind()) else {
                continue;
            };
            let devices = spec.devices().iter();
            for device in devices.filter(|device| requested.contains(&device.name)) {
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

    /// Returns why these names may have more nodes than were read: the file or directory, the
    /// reason, and what to do. `None` if there are no names.
    pub fn open(&self, names: &UnresolvedNames) -> Option<&str> {
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

/// Why a runtime may read more from a file than this program, and what to do.
fn why_readable_elsewhere(file: &SpecFile) -> Option<String> {
    let error = file.spec.as_ref().err()?;
    Some(match error {
        LoadError::Invalid { .. } => format!(
            "{}, and a runtime may read this file differently ({})",
            error_chain(error),
            error.hint()
        ),
        // The link's target may exist for the runtime, which sees the host's root.
        LoadError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            format!(
                "{}: the file is a link whose target is not visible here (if the target exists \
                 on the host, replace the link with a copy of the target, or mount the target's \
                 directory at the same path; otherwise remove the link)",
                error_chain(error)
            )
        }
        error => format!("{} ({})", error_chain(error), error.hint()),
    })
}
