//! The path for loading a library. It makes the loader open a replaced file even if the process
//! still holds the old library.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Creates library paths that make the loader open the current file.
///
/// glibc compares names first. While anything in this process still holds a library (another
/// session, a thread-local destructor, `RTLD_NODELETE`), the same path refers to the old
/// library, even after the file was replaced. For a different path (`dir/./lib`), glibc
/// compares device and inode.
#[derive(Debug, Default)]
pub(crate) struct LoadPath {
    last: Mutex<Option<LoadedFile>>,
}

/// A file, with the number of files loaded before it.
#[derive(Debug)]
struct LoadedFile {
    identity: Identity,
    generation: usize,
}

/// Device, inode and change time, which differs if an inode number is reused.
type Identity = (u64, u64, i64, i64);

/// Number of generations, after which the count restarts. The generation is the number of `./`
/// in the path, which has at most 4096 bytes. Nothing still holds the library of a thousand
/// generations ago.
const GENERATIONS: usize = 1000;

// === impl LoadPath ===

impl LoadPath {
    /// Returns the path for `dlopen` of the library at `path`.
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
    fn a_file_keeps_its_path_and_a_replaced_file_gets_a_new_one() {
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
