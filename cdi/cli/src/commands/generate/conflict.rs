//! The specs that are already in the new one's directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dra_common::error_chain;
use imex_cdi::{QualifiedName, Registry, Spec, SpecFile};

use super::error::GenerateError;
use crate::input::directory_of;
use crate::stderr::note;

/// Checks the directory of `path` if it is one of the host's CDI directories: the file must
/// not conflict with another one; what cannot be compared, and the devices that are lost with the
/// file that it replaces, are reported.
pub(super) fn check(path: &Path, spec: &Spec, dirs: &[PathBuf]) -> Result<(), GenerateError> {
    let Ok(parent) = fs::canonicalize(directory_of(path)) else {
        return Ok(());
    };
    let is_parent = |dir: &PathBuf| fs::canonicalize(dir).is_ok_and(|dir| dir == parent);
    let Some(priority) = dirs.iter().position(is_parent) else {
        return Ok(());
    };
    let registry = Registry::load(dirs);
    let files = registry.files().iter();
    let (old, others): (Vec<_>, Vec<_>) = files
        .filter(|file| file.priority == priority)
        .partition(|file| file.path.file_name() == path.file_name());
    for other in others {
        refuse_conflict(spec, other)?;
    }
    for file in old {
        note_lost_devices(spec, file);
    }
    Ok(())
}

/// An error if another file of the directory defines one of the devices: neither
/// would resolve.
fn refuse_conflict(spec: &Spec, file: &SpecFile) -> Result<(), GenerateError> {
    let other = match &file.spec {
        Ok(other) => other,
        Err(error) => {
            let error = error_chain(error);
            note(&format!(
                "{error}; if it defines a device of this spec, neither resolves"
            ));
            return Ok(());
        }
    };
    let names: BTreeSet<_> = other.devices().iter().map(|device| &device.name).collect();
    let mut devices = spec.devices().iter();
    match devices.find(|device| other.kind() == spec.kind() && names.contains(&device.name)) {
        Some(device) => Err(GenerateError::Conflict {
            path: file.path.clone(),
            name: QualifiedName::new(spec.kind().clone(), device.name.clone()),
        }),
        None => Ok(()),
    }
}

/// Names the devices of the file that is replaced which the new spec lacks.
fn note_lost_devices(spec: &Spec, file: &SpecFile) {
    let Ok(old) = &file.spec else {
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
            file.path.display(),
            old.kind(),
            first.name
        ));
    }
}
