//! Detects a missing link `libnvidia-ml.so.1` beside an existing versioned library: an
//! installer did not run `ldconfig`, or only the versioned files were copied into an image.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::not_found::{DriverFileNotFound, RejectReason};
use crate::{elf, resolve};

/// Prefix of the library's versioned names.
const VERSIONED_PREFIX: &str = "libnvidia-ml.so.";

/// Replaces the reason of each missing path that has a loadable versioned library in its
/// directory. If several paths lead to one directory, only the first is changed.
pub(crate) fn explain(not_found: &mut DriverFileNotFound) {
    let mut seen = HashSet::new();
    let DriverFileNotFound { root, rejected, .. } = not_found;
    let missing = rejected.iter_mut();
    for candidate in missing.filter(|path| path.reason == RejectReason::Missing) {
        let Some(dir) = dir_inside(root, &candidate.path) else {
            continue;
        };
        if seen.insert(dir.clone())
            && let Some(library) = newest_library(root, &dir)
        {
            candidate.reason = RejectReason::NotLinked { library };
        }
    }
}

/// The directory of a candidate, relative to the root. `None` if the directory does not exist
/// or the candidate is the root itself.
fn dir_inside(root: &Path, candidate: &Path) -> Option<PathBuf> {
    let dir = candidate.strip_prefix(root).ok()?.parent()?;
    resolve::path_inside(root, dir).ok()
}

/// The alphabetically last name of the loadable libraries in a directory inside the root.
/// Excludes the unversioned name, which was rejected.
fn newest_library(root: &Path, dir: &Path) -> Option<String> {
    let entries = fs::read_dir(root.join(dir)).ok()?;
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(VERSIONED_PREFIX))
        .filter(|name| {
            let file = resolve::regular_file(root, &dir.join(name));
            file.is_ok_and(|file| elf::check_loadable(&file).is_ok())
        })
        .max()
}
