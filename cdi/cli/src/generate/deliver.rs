//! Where the spec goes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use durable_file::{Dir, OsDir};
use imex_cdi::{QualifiedName, Registry, Spec};
use serde_json::Value;

use super::{GenerateError, yaml};
use crate::args::Format;
use crate::document;
use crate::failure::note;
use crate::reading::directory_of;

/// Runtimes that run as other users read specs too.
const SPEC_MODE: u32 = 0o644;
const DIR_MODE: u32 = 0o755;

/// A spec's place among the host's.
pub(super) struct Install {
    dirs: Vec<PathBuf>,
    dir: PathBuf,
    name: String,
}

/// The spec for people.
pub(super) fn text(spec: &Spec, format: Format) -> Vec<u8> {
    // It was written by serde_json a moment ago.
    let value: Value = serde_json::from_slice(&spec.to_json()).unwrap_or_default();
    match format {
        Format::Json => format!("{value:#}\n").into_bytes(),
        Format::Yaml => yaml::write(&value).into_bytes(),
    }
}

/// Puts `bytes` at `path`, which then has all of them or what it had before.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), GenerateError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| GenerateError::NoFileName {
        path: path.to_owned(),
    })?;
    if ![".json", ".yaml"].iter().any(|end| name.ends_with(end)) {
        note(&format!(
            "runtimes read only files whose names end in .json or .yaml, and {name} does not"
        ));
    }
    OsDir::open(directory_of(path))
        .and_then(|dir| put(&dir, name, bytes))
        .map_err(|source| GenerateError::Write {
            path: path.to_owned(),
            source,
        })
}

/// Runtimes read every spec again after each write: none if it changes nothing.
fn put(dir: &OsDir, name: &str, bytes: &[u8]) -> Result<(), durable_file::Error> {
    if dir.read(name)?.is_some_and(|found| found == bytes) {
        return dir.sync();
    }
    dir.replace(name, bytes, SPEC_MODE).map(drop)
}

// === impl Install ===

impl Install {
    /// In the directory of highest priority, as Go's library does.
    pub(super) fn new(spec: &Spec, id: Option<&str>, dirs: Vec<PathBuf>) -> Self {
        let suffix = id.map_or_else(String::new, |id| format!("_{id}"));
        let kind = spec.kind();
        Self {
            dir: dirs.last().cloned().unwrap_or_default(),
            dirs,
            name: format!("{}-{}{suffix}.json", kind.vendor(), kind.class()),
        }
    }

    /// Writes the file and says where it is.
    pub(super) fn write(&self, spec: &Spec) -> Result<PathBuf, GenerateError> {
        let registry = Registry::load(&self.dirs);
        let last = self.dirs.len().saturating_sub(1);
        refuse_conflict(spec, &registry, last, &self.name)?;
        let path = self.dir.join(&self.name);
        note_loss(spec, &path);
        OsDir::create(&self.dir, DIR_MODE)
            .and_then(|dir| put(&dir, &self.name, &spec.to_json()))
            .map_err(|source| GenerateError::Write {
                path: path.clone(),
                source,
            })?;
        Ok(path)
    }
}

/// As for an installed file, if `path` is in one of the host's CDI directories.
pub(super) fn check_conflict(
    path: &Path,
    spec: &Spec,
    dirs: &[PathBuf],
) -> Result<(), GenerateError> {
    let name = path.file_name().and_then(OsStr::to_str);
    let parent = fs::canonicalize(directory_of(path));
    let (Some(name), Ok(parent)) = (name, parent) else {
        return Ok(());
    };
    let is_parent = |dir: &PathBuf| fs::canonicalize(dir).is_ok_and(|dir| dir == parent);
    let Some(priority) = dirs.iter().position(is_parent) else {
        return Ok(());
    };
    refuse_conflict(spec, &Registry::load(dirs), priority, name)?;
    note_loss(spec, path);
    Ok(())
}

/// Another file of the directory that defines one of the devices would make
/// the device resolve nowhere.
fn refuse_conflict(
    spec: &Spec,
    registry: &Registry,
    priority: usize,
    name: &str,
) -> Result<(), GenerateError> {
    let others = registry
        .files()
        .iter()
        .filter(|file| file.priority == priority && file.path.file_name() != Some(name.as_ref()));
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

/// Says which devices go with the file that is replaced.
fn note_loss(spec: &Spec, path: &Path) {
    let old = document::read(path).ok();
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
            "{} has {}={}{others}, which this spec has not: they go with it",
            path.display(),
            old.kind(),
            first.name
        ));
    }
}
