//! A driver whose library is there and whose link `libnvidia-ml.so.1` is not:
//! an installer that did not run `ldconfig`, or an image of which only the
//! versioned files were copied.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::root::{LIBRARY, NotFound, Reason};
use crate::{elf, resolve};

/// What the versioned names of the library begin with.
const VERSIONED: &str = "libnvidia-ml.so.";

/// Gives each candidate that is missing the library beside it for a reason,
/// once where several of the directories are one.
pub(crate) fn tell(not_found: &mut NotFound) {
    let mut seen = HashSet::new();
    let NotFound { root, rejected, .. } = not_found;
    let missing = rejected.iter_mut();
    for candidate in missing.filter(|it| it.reason == Reason::Missing) {
        let Some(dir) = dir_inside(root, &candidate.path) else {
            continue;
        };
        if seen.insert(dir.clone())
            && let Some(library) = library_in(root, &dir)
        {
            candidate.reason = Reason::NotLinked { library };
        }
    }
}

/// The directory of a candidate, from the root on; `None` if there is none, or
/// if the candidate is the root itself.
fn dir_inside(root: &Path, candidate: &Path) -> Option<PathBuf> {
    let dir = candidate.strip_prefix(root).ok()?.parent()?;
    resolve::inside(root, dir).ok()
}

/// The last of the names of loadable libraries in a directory inside the root.
fn library_in(root: &Path, dir: &Path) -> Option<String> {
    let entries = fs::read_dir(root.join(dir)).ok()?;
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(VERSIONED) && name != LIBRARY)
        .filter(|name| {
            let file = resolve::regular_file(root, &dir.join(name));
            file.is_ok_and(|file| elf::loadable(&file).is_ok())
        })
        .max()
}
