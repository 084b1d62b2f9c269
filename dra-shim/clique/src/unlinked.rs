//! A driver whose library is there and whose link `libnvidia-ml.so.1` is not:
//! an installer that did not run `ldconfig`, or an image of which only the
//! versioned files were copied.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::root::{LIBRARY, NotFound, Reason};
use crate::{elf, resolve};

/// What the versioned names of the library begin with.
const VERSIONED: &str = "libnvidia-ml.so.";

/// Gives each candidate that is missing the library beside it for a reason,
/// once where several of the directories are one.
pub(crate) fn tell(not_found: &mut NotFound, dirs: &[&str]) {
    let mut seen = HashSet::new();
    let root = not_found.root.clone();
    let dirs = [""].iter().chain(dirs);
    // A root that is no directory is the only candidate.
    let candidates = not_found.rejected.iter_mut().zip(dirs);
    for (candidate, dir) in candidates.filter(|(it, _)| it.reason == Reason::Missing) {
        let Ok(dir) = resolve::inside(&root, Path::new(dir)) else {
            continue;
        };
        if seen.insert(dir.clone())
            && let Some(library) = library_in(&root, &dir)
        {
            candidate.reason = Reason::NotLinked { library };
        }
    }
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
