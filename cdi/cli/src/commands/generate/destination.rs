//! Where the spec is written to.

use std::io::Write;
use std::path::{Path, PathBuf};

use durable_file::{Dir, OsDir};
use imex_cdi::{MAX_SPEC_LEN, Spec};
use serde_json::Value;

use super::error::GenerateError;
use super::{conflict, yaml};
use crate::args::Format;
use crate::input::directory_of;
use crate::outcome::Failure;
use crate::stderr::note;

/// Runtimes that run as other users read specs too.
const SPEC_MODE: u32 = 0o644;

pub(super) enum Destination {
    Stdout,
    File {
        path: PathBuf,
        /// The host's CDI directories, of which its directory may be one.
        dirs: Vec<PathBuf>,
    },
}

// === impl Destination ===

impl Destination {
    /// The file at `path`, or stdout for `-`.
    pub(super) fn new(path: PathBuf, dirs: Vec<PathBuf>) -> Self {
        if path == Path::new("-") {
            Self::Stdout
        } else {
            Self::File { path, dirs }
        }
    }

    pub(super) fn write(
        &self,
        spec: &Spec,
        format: Format,
        stdout: &mut impl Write,
    ) -> Result<(), Failure> {
        match self {
            Self::Stdout => stdout.write_all(&loadable(text(spec, format))?),
            Self::File { path, dirs } => {
                let name = file_name(path)?;
                check_regular(path)?;
                if is_read_by_runtimes(name) {
                    conflict::check(path, spec, dirs)?;
                } else {
                    note(&format!(
                        "runtimes read only files whose names end in .json or .yaml, and {name} does not"
                    ));
                }
                let bytes = match format {
                    Format::Json => spec.to_json(),
                    Format::Yaml => text(spec, format),
                };
                write_file(path, name, &loadable(bytes)?)?;
                Ok(())
            }
        }
        .map_err(Failure::stdout)
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

/// Only what runtimes and these commands can load is written.
fn loadable(bytes: Vec<u8>) -> Result<Vec<u8>, GenerateError> {
    match bytes.len() {
        len if len as u64 > MAX_SPEC_LEN => Err(GenerateError::TooLong { len }),
        _ => Ok(bytes),
    }
}

fn file_name(path: &Path) -> Result<&str, GenerateError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| GenerateError::NoFileName {
        path: path.to_owned(),
    })
}

/// An error if something else than a file would be replaced, such as /dev/null or a link.
fn check_regular(path: &Path) -> Result<(), GenerateError> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => Err(GenerateError::NotAFile {
            path: path.to_owned(),
        }),
        // Of any other error, writing says more.
        _ => Ok(()),
    }
}

fn is_read_by_runtimes(name: &str) -> bool {
    [".json", ".yaml"].iter().any(|end| name.ends_with(end))
}

/// Afterwards the file has all of `bytes`, or its old content.
fn write_file(path: &Path, name: &str, bytes: &[u8]) -> Result<(), GenerateError> {
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
