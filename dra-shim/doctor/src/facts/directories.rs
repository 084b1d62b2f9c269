//! The CDI directories and the files in them.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use imex_cdi::{DirState, MAX_SPEC_LEN, QualifiedName, Registry, ResolveError, Spec, SpecDir};

use crate::error_facts::ErrorFacts;
use crate::host::Host;

/// The limit of files and subdirectories that are examined in one CDI directory.
const MAX_FILES: usize = 256;

/// The limit of levels that are examined: a misplaced spec is rarely deeper.
const MAX_LEVELS: usize = 3;

/// The contents of the CDI directories, valid or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectoryFacts {
    /// The directories, lowest priority first.
    pub directories: Vec<CdiDirectory>,
    /// The files that runtimes read.
    pub files: Vec<FileMode>,
}

/// A directory of CDI specs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdiDirectory {
    /// Its path.
    pub path: String,
    /// What exists at the path.
    pub state: CdiDirectoryState,
}

/// What exists at the path of a CDI directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CdiDirectoryState {
    /// A directory that runtimes read.
    Listed {
        /// Its permission bits, with set-id and sticky bits; `None` if they
        /// cannot be read.
        mode: Option<u32>,
        /// The names in it, sorted.
        names: Vec<String>,
        /// Specs in its subdirectories, which runtimes do not read.
        nested: Vec<NestedSpec>,
    },
    /// Nothing.
    Absent,
    /// Something that runtimes do not read.
    Skipped(ErrorFacts),
}

/// A file's permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMode {
    /// Its path.
    pub path: String,
    /// Its permission bits, with set-id and sticky bits; `None` if they cannot
    /// be read, or the path is not a regular file.
    pub mode: Option<u32>,
}

/// A valid spec in a subdirectory of a CDI directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedSpec {
    /// Its path.
    pub path: String,
    /// A device of it that no other file defines; `None` for a copy.
    pub missing_device: Option<String>,
}

// === impl DirectoryFacts ===

impl DirectoryFacts {
    pub(crate) fn read(host: &Host, registry: &Registry) -> Self {
        let directories = registry.dirs().iter();
        let specs = registry.files().iter();
        Self {
            directories: directories
                .map(|dir| CdiDirectory::read(host, registry, dir))
                .collect(),
            files: specs
                .map(|file| FileMode {
                    path: host.host_name(&file.path),
                    mode: mode(&file.path, Metadata::is_file),
                })
                .collect(),
        }
    }
}

// === impl CdiDirectory ===

impl CdiDirectory {
    fn read(host: &Host, registry: &Registry, dir: &SpecDir) -> Self {
        let path = host.host_name(&dir.path);
        let state = match &dir.state {
            DirState::Listed => CdiDirectoryState::Listed {
                mode: mode(&dir.path, Metadata::is_dir),
                names: host.list(&path),
                nested: nested(host, registry, &path),
            },
            DirState::Absent => CdiDirectoryState::Absent,
            DirState::Skipped(error) => {
                let (code, hint) = (error.code(), error.hint());
                CdiDirectoryState::Skipped(ErrorFacts::new(host, &dir.path, error, code, hint))
            }
        };
        Self { path, state }
    }
}

/// The mode of a file, following links as runtimes do. `None` if it has another type, such as a
/// link to a device: its mode must not be changed.
fn mode(path: &Path, is_one: impl Fn(&Metadata) -> bool) -> Option<u32> {
    let found = path.metadata().ok().filter(is_one)?;
    Some(found.permissions().mode() & 0o7777)
}

/// The specs in subdirectories of a CDI directory. Runtimes read only the files directly in the
/// directory (CDI specification, "CDI JSON Specification").
fn nested(host: &Host, registry: &Registry, dir: &str) -> Vec<NestedSpec> {
    let mut found = Vec::new();
    let mut todo: Vec<(String, usize)> = subdirectories(host, dir, 1).collect();
    let mut left = MAX_FILES;
    while let Some((dir, level)) = todo.pop() {
        for name in host.list(&dir) {
            if left == 0 {
                return found;
            }
            left -= 1;
            if is_spec_name(&name) {
                found.extend(read_nested(host, registry, format!("{dir}/{name}")));
            }
        }
        if level < MAX_LEVELS {
            todo.extend(subdirectories(host, &dir, level + 1));
        }
    }
    found
}

/// The subdirectories, without links, which may lead anywhere.
fn subdirectories<'a>(
    host: &'a Host,
    dir: &'a str,
    level: usize,
) -> impl Iterator<Item = (String, usize)> + use<'a> {
    let names = host.list(dir).into_iter();
    let paths = names.map(move |name| format!("{dir}/{name}"));
    let is_dir = |path: &String| {
        let found = host.resolve(path).symlink_metadata();
        found.is_ok_and(|found| found.is_dir())
    };
    paths.filter(is_dir).map(move |path| (path, level))
}

/// Reads a spec in a subdirectory; `None` if it is invalid.
fn read_nested(host: &Host, registry: &Registry, path: String) -> Option<NestedSpec> {
    let text = host.read_up_to(&path, MAX_SPEC_LEN).ok()??;
    let spec = Spec::parse(&text).ok()?;
    let devices = spec.devices().iter();
    let mut names =
        devices.map(|device| QualifiedName::new(spec.kind().clone(), device.name.clone()));
    let is_missed = |name: &QualifiedName| {
        let resolved = registry.resolve(name);
        matches!(resolved, Err(ResolveError::Unknown { .. }))
    };
    let missing_device = names.find(is_missed).map(|name| name.to_string());
    Some(NestedSpec {
        path,
        missing_device,
    })
}

/// Whether runtimes read a file of this name in a CDI directory: they compare exactly.
pub fn is_spec_name(name: &str) -> bool {
    [".json", ".yaml"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_mode_of_a_linked_device_is_not_reported() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/dev/zero", dir.path().join("zero.json")).unwrap();
        let host = Host::open(Path::new("/")).unwrap();
        let facts = DirectoryFacts::read(&host, &Registry::load(&[dir.path()]));
        let modes: Vec<_> = facts.files.iter().map(|file| file.mode).collect();
        assert_eq!(modes, [None]);
    }
}
