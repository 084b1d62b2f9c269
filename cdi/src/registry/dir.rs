//! One CDI directory, listed as Go's `filepath.Walk` walks it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dra_common::{Advice, OneLine};

use super::file::SpecFile;
use super::limits::Budget;

/// A directory of spec files.
#[derive(Debug)]
#[non_exhaustive]
pub struct SpecDir {
    /// Its path as given, without repeated and trailing slashes.
    pub path: PathBuf,
    /// Its index among the directories given; the higher wins.
    pub priority: usize,
    /// Whether its files were read.
    pub state: DirState,
}

/// Whether the files of a directory were read.
#[derive(Debug)]
pub enum DirState {
    /// Its files are in the registry.
    Listed,
    /// It does not exist, which is no error.
    Absent,
    /// It exists, but none of its files was read.
    Skipped(DirError),
}

/// Why a directory's files are not read.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum DirError {
    /// It cannot be listed.
    #[error("cannot list CDI directory {}", OneLine(path.display()))]
    #[advice(
        code = "cdi-directory-unreadable",
        hint = "give the directory mode 0755, or read the directory as root"
    )]
    Unlistable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a symbolic link, which Go's library does not follow.
    #[error("CDI directory {} is a symbolic link, which runtimes do not follow", OneLine(path.display()))]
    #[advice(
        code = "cdi-directory-link",
        hint = "replace the link with a directory (or a bind mount), or configure the link's \
                target in the runtime"
    )]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// It is neither a directory nor a spec file.
    #[error("CDI directory {} is not a directory", OneLine(path.display()))]
    #[advice(
        code = "cdi-directory-not-one",
        hint = "move the file at this path away, and create a directory with mode 0755"
    )]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
}

pub(super) fn load(path: &Path, priority: usize, budget: &mut Budget) -> (SpecDir, Vec<SpecFile>) {
    let path = clean(path);
    let (state, names) = match spec_paths(&path) {
        Ok(paths) => (DirState::Listed, paths),
        Err(state) => (state, Vec::new()),
    };
    let mut files = Vec::new();
    for path in names {
        if budget.is_exceeded() {
            break;
        }
        let file = SpecFile::load(path, priority, budget);
        if !file.was_deleted() {
            files.push(file);
        }
    }
    let dir = SpecDir {
        path,
        priority,
        state,
    };
    (dir, files)
}

/// Whether runtimes read files of this name. A file named `.json` is one, as for
/// Go.
// req: CDI-13
pub(super) fn is_spec_name(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".json") || name.ends_with(b".yaml")
}

/// The names in `dir`, ascending by their bytes.
pub(super) fn names(dir: &Path) -> io::Result<Vec<OsString>> {
    let names: io::Result<Vec<_>> = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect();
    let mut names = names?;
    names.sort();
    Ok(names)
}

fn spec_paths(dir: &Path) -> Result<Vec<PathBuf>, DirState> {
    let unlistable = |source| {
        DirState::Skipped(DirError::Unlistable {
            path: dir.to_owned(),
            source,
        })
    };
    let found = match dir.symlink_metadata() {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DirState::Absent),
        Err(error) => return Err(unlistable(error)),
    };
    if !found.is_dir() {
        let path = dir.to_owned();
        return match dir.file_name() {
            Some(name) if is_spec_name(name) => Ok(vec![path]),
            _ if found.is_symlink() => Err(DirState::Skipped(DirError::Link { path })),
            _ => Err(DirState::Skipped(DirError::NotADirectory { path })),
        };
    }
    let names = names(dir).map_err(unlistable)?;
    let names = names.into_iter().filter(|name| is_spec_name(name));
    let paths = names.map(|name| dir.join(name));
    Ok(paths.filter(|path| !is_own_dir(path)).collect())
}

/// Whether `path` is a directory, not a link to one.
pub(super) fn is_own_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// `path` without repeated and trailing slashes: with a trailing one, the kernel
/// would follow a link that Go's library does not. (A `..` stays, as only the
/// kernel knows where it leads behind a link; Go's library removes it lexically.)
fn clean(path: &Path) -> PathBuf {
    let clean: PathBuf = path.components().collect();
    if clean.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        clean
    }
}
