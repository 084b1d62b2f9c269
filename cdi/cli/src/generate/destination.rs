//! Where the spec is written to.

use std::io::Write;
use std::path::{Path, PathBuf};

use durable_file::{Dir, OsDir};
use imex_cdi::{Registry, Spec};
use serde_json::Value;

use super::error::GenerateError;
use super::{conflict, yaml};
use crate::args::Format;
use crate::escape::escape;
use crate::outcome::Failure;
use crate::reading::directory_of;
use crate::stderr::note;

/// Runtimes that run as other users read specs too.
const SPEC_MODE: u32 = 0o644;
const DIR_MODE: u32 = 0o755;

pub(super) enum Destination {
    Stdout,
    File(PathBuf),
    Installed(Install),
}

/// A file in one of the host's CDI directories.
pub(super) struct Install {
    dirs: Vec<PathBuf>,
    dir: PathBuf,
    name: String,
}

// === impl Destination ===

impl Destination {
    pub(super) fn write(
        &self,
        spec: &Spec,
        format: Format,
        stdout: &mut impl Write,
    ) -> Result<(), Failure> {
        match self {
            Self::Stdout => stdout.write_all(&text(spec, format)),
            Self::File(path) => {
                let bytes = match format {
                    Format::Json => spec.to_json(),
                    Format::Yaml => text(spec, format),
                };
                write_file(path, &bytes)?;
                Ok(())
            }
            Self::Installed(install) => {
                let file = install.write(spec)?;
                writeln!(stdout, "{}", escape(&file.to_string_lossy()))
            }
        }
        .map_err(Failure::stdout)
    }
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

    /// Writes the file and returns its path.
    fn write(&self, spec: &Spec) -> Result<PathBuf, GenerateError> {
        let registry = Registry::load(&self.dirs);
        let last = self.dirs.len().saturating_sub(1);
        conflict::refuse(spec, &registry, last, &self.name)?;
        let path = self.dir.join(&self.name);
        conflict::note_lost_devices(spec, &path);
        OsDir::create(&self.dir, DIR_MODE)
            .and_then(|dir| replace(&dir, &self.name, &spec.to_json()))
            .map_err(|source| GenerateError::Write {
                path: path.clone(),
                source,
            })?;
        Ok(path)
    }
}

/// The spec for people.
fn text(spec: &Spec, format: Format) -> Vec<u8> {
    // serde_json wrote the text, so that it reads it.
    let value: Value = serde_json::from_slice(&spec.to_json()).unwrap_or_default();
    match format {
        Format::Json => format!("{value:#}\n").into_bytes(),
        Format::Yaml => yaml::write(&value).into_bytes(),
    }
}

/// Afterwards the file at `path` has all of `bytes`, or its old content.
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), GenerateError> {
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
        .and_then(|dir| replace(&dir, name, bytes))
        .map_err(|source| GenerateError::Write {
            path: path.to_owned(),
            source,
        })
}

/// Writes nothing if nothing changes: runtimes read every spec again after each
/// write.
fn replace(dir: &OsDir, name: &str, bytes: &[u8]) -> Result<(), durable_file::Error> {
    if dir.read(name)?.is_some_and(|found| found == bytes) {
        return dir.sync();
    }
    dir.replace(name, bytes, SPEC_MODE).map(drop)
}
