//! A replaced library is another library, whoever still holds the old one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// How to write a library's path so that the loader opens the file that is
/// there now.
///
/// glibc goes by name first: while anything in this process still holds a
/// library (another session, a thread-local destructor, `RTLD_NODELETE`), a
/// path written as before means the old one, even after the file was replaced.
/// Written differently (`dir/./lib`) it is looked up by device and inode.
#[derive(Debug, Default)]
pub(crate) struct Spelling {
    last: Mutex<Option<Seen>>,
}

/// A file, and how many have been seen before it.
#[derive(Debug)]
struct Seen {
    identity: Identity,
    generation: usize,
}

/// Which file it is. The time of change tells a reused inode number.
type Identity = (u64, u64, i64, i64);

/// Dots are added up to this many; a path has room for 4096 bytes. By the time
/// the count starts over, nobody holds the library of a thousand drivers ago.
const GENERATIONS: usize = 1000;

// === impl Spelling ===

impl Spelling {
    pub(crate) fn of(&self, path: &Path) -> OsString {
        let generation = self.generation(path);
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return path.as_os_str().to_owned();
        };
        let mut spelled = dir.as_os_str().to_owned();
        spelled.push("/");
        spelled.push("./".repeat(generation));
        spelled.push(name);
        spelled
    }

    fn generation(&self, path: &Path) -> usize {
        // A file that has just vanished is the loader's to complain about.
        let Ok(it) = fs::metadata(path) else {
            return 0;
        };
        let identity = (it.dev(), it.ino(), it.ctime(), it.ctime_nsec());
        // One whole value is replaced by another: a poisoned lock guards no less.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = match &*last {
            Some(seen) if seen.identity == identity => seen.generation,
            Some(seen) => (seen.generation + 1) % GENERATIONS,
            None => 0,
        };
        *last = Some(Seen {
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
    fn the_same_file_is_spelled_the_same_and_its_successor_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib.so");
        let spelling = Spelling::default();
        fs::write(&path, "old").unwrap();
        assert_eq!(spelling.of(&path), path.as_os_str());
        assert_eq!(spelling.of(&path), path.as_os_str());

        let new = dir.path().join("new");
        fs::write(&new, "new").unwrap();
        fs::rename(&new, &path).unwrap();
        let spelled = spelling.of(&path);
        assert_eq!(spelled, dir.path().join("./lib.so").into_os_string());
        assert_ne!(spelled, path.as_os_str());
        assert_eq!(fs::read_to_string(&spelled).unwrap(), "new");
    }
}
