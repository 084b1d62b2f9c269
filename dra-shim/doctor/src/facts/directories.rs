//! The CDI directories and the files in them.

pub(crate) mod nested;

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use dra_common::error_chain;
use imex_cdi::{DirState, Registry, SpecDir};

use self::nested::NestedSpec;
use crate::error_facts::ErrorFacts;
use crate::files::HostFiles;

/// What is in the CDI directories, valid or not.
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
    /// What there is.
    pub state: CdiDirectoryState,
}

/// What there is at the path of a CDI directory.
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
    /// be read, or it is not a regular file.
    pub mode: Option<u32>,
}

// === impl DirectoryFacts ===

impl DirectoryFacts {
    pub(crate) fn read(files: &HostFiles, registry: &Registry) -> Self {
        let directories = registry.dirs().iter();
        let specs = registry.files().iter();
        Self {
            directories: directories
                .map(|dir| CdiDirectory::read(files, registry, dir))
                .collect(),
            files: specs
                .map(|file| FileMode {
                    path: files.host_name(&file.path),
                    mode: mode(&file.path, Metadata::is_file),
                })
                .collect(),
        }
    }
}

// === impl CdiDirectory ===

impl CdiDirectory {
    fn read(files: &HostFiles, registry: &Registry, dir: &SpecDir) -> Self {
        let path = files.host_name(&dir.path);
        let state = match &dir.state {
            DirState::Listed => CdiDirectoryState::Listed {
                mode: mode(&dir.path, Metadata::is_dir),
                names: files.list(&path),
                nested: nested::find(files, registry, &path),
            },
            DirState::Absent => CdiDirectoryState::Absent,
            DirState::Skipped(error) => CdiDirectoryState::Skipped(ErrorFacts {
                code: error.code(),
                message: files.with_host_names(&error_chain(error), &dir.path),
                hint: error.hint().to_owned(),
            }),
        };
        Self { path, state }
    }
}

/// Of what a link leads to: a runtime opens that.
/// Of what is no such thing, but a link to a device, say, the mode is nobody's to change.
fn mode(path: &Path, is_one: impl Fn(&Metadata) -> bool) -> Option<u32> {
    let found = path.metadata().ok().filter(is_one)?;
    Some(found.permissions().mode() & 0o7777)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::root::Root;

    #[test]
    fn nobody_is_told_to_change_the_mode_of_what_a_link_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/dev/zero", dir.path().join("zero.json")).unwrap();
        let files = HostFiles::new(Root::new(Path::new("/")).unwrap());
        let facts = DirectoryFacts::read(&files, &Registry::load(&[dir.path()]));
        let modes: Vec<_> = facts.files.iter().map(|file| file.mode).collect();
        assert_eq!(modes, [None]);
    }
}
