//! The specs that are already in the new one's directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use imex_cdi::{QualifiedName, Registry, Spec};

use super::error::GenerateError;
use crate::document;
use crate::input::directory_of;
use crate::stderr::note;

/// Checks the directory of `path` if it is one of the host's CDI directories: the file must
/// not conflict with another one; the devices that are lost with the file that it replaces are
/// reported.
pub(super) fn check(path: &Path, spec: &Spec, dirs: &[PathBuf]) -> Result<(), GenerateError> {
    let Ok(parent) = fs::canonicalize(directory_of(path)) else {
        return Ok(());
    };
    let is_parent = |dir: &PathBuf| fs::canonicalize(dir).is_ok_and(|dir| dir == parent);
    if let Some(priority) = dirs.iter().position(is_parent) {
        refuse_conflict(spec, &Registry::load(dirs), priority, path)?;
        note_lost_devices(spec, path);
    }
    Ok(())
}

/// An error if another file of the directory defines one of the devices: neither
/// would resolve.
fn refuse_conflict(
    spec: &Spec,
    registry: &Registry,
    priority: usize,
    path: &Path,
) -> Result<(), GenerateError> {
    let others = registry
        .files()
        .iter()
        .filter(|file| file.priority == priority && file.path.file_name() != path.file_name());
    for (file, other) in others.filter_map(|file| Some((file, file.spec.as_ref().ok()?))) {
        if other.kind() != spec.kind() {
            continue;
        }
        let names: BTreeSet<_> = other.devices().iter().map(|device| &device.name).collect();
        let mut devices = spec.devices().iter();
        if let Some(device) = devices.find(|device| names.contains(&device.name)) {
            return Err(GenerateError::Conflict {
                path: file.path.clone(),
                name: QualifiedName::new(spec.kind().clone(), device.name.clone()),
            });
        }
    }
    Ok(())
}

/// Names the devices of the file that is replaced which the new spec lacks.
fn note_lost_devices(spec: &Spec, path: &Path) {
    let old = document::read_spec(path).ok();
    let Some(old) = old.and_then(|bytes| Spec::parse(&bytes).ok()) else {
        return;
    };
    let kept: BTreeSet<_> = spec.devices().iter().map(|device| &device.name).collect();
    let same_kind = old.kind() == spec.kind();
    let mut lost = old
        .devices()
        .iter()
        .filter(|device| !(same_kind && kept.contains(&device.name)));
    if let Some(first) = lost.next() {
        let others = match lost.count() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        note(&format!(
            "{} defines {}={}{others}, which this spec does not: they are lost",
            path.display(),
            old.kind(),
            first.name
        ));
    }
}
