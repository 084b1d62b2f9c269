//! Writes the spec, and checks it against the specs that are already there.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use dra_common::error_chain;
use durable_file::{Dir, OsDir};
use host_doctor::is_spec_name;
use imex_cdi::{MAX_SPEC_LEN, Registry, Spec, SpecFile};
use serde_json::Value;

use super::yaml;
use crate::args::Format;
use crate::input::directory_of;
use crate::outcome::{Failure, Outcome};
use crate::terminal::note;

/// Runtimes that run as other users read specs too.
const SPEC_MODE: u32 = 0o644;

/// Where and how the spec is written.
pub(super) struct Destination<'a> {
    /// A file, or `-` for stdout.
    pub(super) output: &'a Path,
    pub(super) format: Format,
    pub(super) hints: Hints,
}

/// What to do about a spec that is not written.
#[derive(Clone, Copy)]
pub(super) struct Hints {
    /// It is too long.
    pub(super) too_long: &'static str,
    /// Another file defines one of its devices.
    pub(super) conflict: &'static str,
}

/// Writes the spec to stdout or a file. `dirs` are the host's CDI directories; the file may be in
/// one of them.
pub(super) fn write(
    destination: &Destination<'_>,
    spec: &Spec,
    dirs: &[PathBuf],
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let Destination {
        output: path,
        format,
        hints,
    } = *destination;
    if path == Path::new("-") {
        let bytes = loadable(text(spec, format), hints)?;
        return stdout.write_all(&bytes).map_err(Failure::stdout);
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| {
        let message = format!("{} is not a file path", path.display());
        Failure::new(Outcome::Usage, message).hint("pass a file, or - for stdout")
    })?;
    check_regular(path)?;
    if is_spec_name(name) {
        check_conflicts(path, spec, dirs, hints)?;
    } else {
        note(&format!(
            "runtimes will not read {name}: its name does not end in .json or .yaml"
        ));
    }
    let bytes = loadable(
        match format {
            Format::Json => spec.to_json(),
            Format::Yaml => text(spec, format),
        },
        hints,
    )?;
    let dir = OsDir::open(directory_of(path));
    let written = dir.and_then(|dir| replace(&dir, name, &bytes));
    written.map_err(|error| {
        let what = format!("cannot write {}", path.display());
        Failure::caused_by(Outcome::Io, what, &error).hint(error.hint())
    })
}

/// The spec, formatted for people.
fn text(spec: &Spec, format: Format) -> Vec<u8> {
    // serde_json wrote this text, so it can parse it.
    let value: Value = serde_json::from_slice(&spec.to_json()).unwrap_or_default();
    match format {
        Format::Json => format!("{value:#}\n").into_bytes(),
        Format::Yaml => yaml::write(&value).into_bytes(),
    }
}

/// Refuses a spec that is too long for cdi-gen and runtimes to load.
fn loadable(bytes: Vec<u8>, hints: Hints) -> Result<Vec<u8>, Failure> {
    let len = bytes.len();
    if len as u64 <= MAX_SPEC_LEN {
        return Ok(bytes);
    }
    let message = format!("the spec has {len} bytes; the limit is {MAX_SPEC_LEN}");
    Err(Failure::new(Outcome::Usage, message).hint(hints.too_long))
}

/// Returns an error if the path exists and is not a regular file, such as /dev/null or a link.
fn check_regular(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => {
            let message = format!("{} exists and is not a regular file", path.display());
            let hint = "pass another path, or, if this path is a link, the link's target";
            Err(Failure::new(Outcome::Io, message).hint(hint))
        }
        // Any other error is reported by the write.
        _ => Ok(()),
    }
}

/// Replaces the file, unless it already has these bytes: runtimes re-read every spec after each
/// write. Afterwards the file has all of `bytes`, or its old content.
fn replace(dir: &OsDir, name: &str, bytes: &[u8]) -> Result<(), durable_file::Error> {
    if dir.read(name)?.is_some_and(|found| found == bytes) {
        return dir.sync();
    }
    dir.replace(name, bytes, SPEC_MODE).map(drop)
}

/// Checks the spec against the others in its directory, if that is one of the host's CDI
/// directories. A conflict is an error. Files that cannot be compared, and devices that are lost
/// with the replaced file, are reported.
fn check_conflicts(
    path: &Path,
    spec: &Spec,
    dirs: &[PathBuf],
    hints: Hints,
) -> Result<(), Failure> {
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
        refuse_conflict(spec, other, hints)?;
    }
    for file in old {
        warn_lost_devices(spec, file);
    }
    Ok(())
}

/// An error if another file of the directory defines one of the devices: neither
/// would resolve.
fn refuse_conflict(spec: &Spec, file: &SpecFile, hints: Hints) -> Result<(), Failure> {
    let other = match &file.spec {
        Ok(other) => other,
        Err(error) => {
            let error = error_chain(error);
            note(&format!(
                "{error}; if that file also defines a device of this spec, the device will not resolve"
            ));
            return Ok(());
        }
    };
    let kind = spec.kind();
    let names: BTreeSet<_> = other.devices().iter().map(|device| &device.name).collect();
    let mut devices = spec.devices().iter();
    match devices.find(|device| other.kind() == kind && names.contains(&device.name)) {
        Some(device) => {
            let (path, name) = (file.path.display(), &device.name);
            let message = format!(
                "{path} already defines {kind}={name}; with both files, the device would not \
                 resolve"
            );
            Err(Failure::new(Outcome::Findings, message).hint(hints.conflict))
        }
        None => Ok(()),
    }
}

/// Warns about devices of the replaced file that the new spec lacks.
fn warn_lost_devices(spec: &Spec, file: &SpecFile) {
    let Ok(old) = &file.spec else {
        return;
    };
    let kept: BTreeSet<_> = spec.devices().iter().map(|device| &device.name).collect();
    let is_kept = |name| old.kind() == spec.kind() && kept.contains(name);
    let devices = old.devices().iter();
    let mut lost = devices.filter(|device| !is_kept(&device.name));
    if let Some(first) = lost.next() {
        let others = match lost.count() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let (path, kind, name) = (file.path.display(), old.kind(), &first.name);
        note(&format!(
            "replacing {path} removes {kind}={name}{others}, which this spec does not define"
        ));
    }
}
