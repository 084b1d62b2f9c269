//! The path by which a library is loaded, such that a file that was replaced is
//! loaded even while something in the process still holds its predecessor.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Writes a library's path so that the loader opens the file that is there now.
///
/// glibc compares names first: while anything in this process still holds a
/// library (another session, a thread-local destructor, `RTLD_NODELETE`), the
/// same path means the old library, even after the file was replaced. Written
/// differently (`dir/./lib`), it is looked up by device and inode.
#[derive(Debug, Default)]
pub(crate) struct LoadPath {
    last: Mutex<Option<LoadedFile>>,
}

/// A file, and how many others were loaded before it.
#[derive(Debug)]
struct LoadedFile {
    identity: Identity,
    generation: usize,
}

/// Device, inode and time of change, which differs where an inode number is reused.
type Identity = (u64, u64, i64, i64);

/// The generation is the number of `./` in the path, which may have 4096 bytes.
/// By the time the count starts over, nothing holds the library of a thousand
/// drivers ago.
const GENERATIONS: usize = 1000;

// === impl LoadPath ===

impl LoadPath {
    /// The path to give to `dlopen` for the library at `path`.
    pub(crate) fn for_library(&self, path: &Path) -> OsString {
        let generation = self.generation(path);
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return path.as_os_str().to_owned();
        };
        let mut load_path = dir.as_os_str().to_owned();
        load_path.push("/");
        load_path.push("./".repeat(generation));
        load_path.push(name);
        load_path
    }

    fn generation(&self, path: &Path) -> usize {
        // If the file has just vanished, the loader reports it.
        let Ok(file) = fs::metadata(path) else {
            return 0;
        };
        let identity = (file.dev(), file.ino(), file.ctime(), file.ctime_nsec());
        // The value is never left half-updated, so poisoning can be ignored.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = match &*last {
            Some(file) if file.identity == identity => file.generation,
            Some(file) => (file.generation + 1) % GENERATIONS,
            None => 0,
        };
        *last = Some(LoadedFile {
            identity,
            generation,
        });
        generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_file_keeps_its_path_and_its_successor_gets_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib.so");
        let paths = LoadPath::default();
        fs::write(&path, "old").unwrap();
        assert_eq!(paths.for_library(&path), path.as_os_str());
        assert_eq!(paths.for_library(&path), path.as_os_str());

        let new = dir.path().join("new");
        fs::write(&new, "new").unwrap();
        fs::rename(&new, &path).unwrap();
        let load_path = paths.for_library(&path);
        assert_eq!(load_path, dir.path().join("./lib.so").into_os_string());
        assert_ne!(load_path, path.as_os_str());
        assert_eq!(fs::read_to_string(&load_path).unwrap(), "new");
    }
}
