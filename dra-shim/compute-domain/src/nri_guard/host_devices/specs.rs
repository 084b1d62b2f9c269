//! The host's CDI specs, cached until a file or directory changes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use imex_cdi::{LimitExceeded, LoadLimits, Registry};

/// Limits of a read: several times what a node has. A registry takes up to ten times the memory of the text.
pub(super) const LIMITS: LoadLimits = LoadLimits {
    files: 1024,
    bytes: 2 << 20,
};
/// How many names in all directories are compared. With more, specs are read each time.
const MAX_NAMES: usize = 4096;
/// Younger files are not cached: another write may leave the same change time.
const SETTLED: Duration = Duration::from_secs(2);

/// The cached specs.
pub(super) struct Specs {
    dirs: Vec<PathBuf>,
    read: Option<Read>,
}

struct Read {
    /// `None`: do not reuse the registry.
    stamps: Option<Vec<Stamp>>,
    registry: Result<Registry, LimitExceeded>,
}

/// Metadata that differs after a change of a directory or file. A change of content shows in the
/// change time, which no program can set.
#[derive(PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    found: Option<Found>,
}

#[derive(PartialEq, Eq)]
struct Found {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

// === impl Specs ===

impl Specs {
    pub(super) fn new(dirs: Vec<PathBuf>) -> Self {
        Self { dirs, read: None }
    }

    /// Caches the last read as if the files had been written long ago.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        if let Some(read) = &mut self.read {
            read.stamps = stamps(&self.dirs).ok().flatten();
        }
    }

    /// The current specs.
    pub(super) fn current(&mut self) -> Result<&Registry, LimitExceeded> {
        let stamps = stamps(&self.dirs).ok().flatten();
        let is_current = |read: &Read| read.stamps.is_some() && read.stamps == stamps;
        let read = match self.read.take().filter(is_current) {
            Some(read) => read,
            None => Read {
                registry: Registry::load_within(&self.dirs, LIMITS),
                stamps: stamps.filter(|stamps| are_settled(stamps)),
            },
        };
        self.read
            .insert(read)
            .registry
            .as_ref()
            .map_err(|error| *error)
    }
}

/// Stamps of the directories and their files. `None`: too many.
fn stamps(dirs: &[PathBuf]) -> io::Result<Option<Vec<Stamp>>> {
    let mut stamps = Vec::new();
    for dir in dirs {
        stamps.push(Stamp::of(dir));
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            if stamps.len() > MAX_NAMES {
                return Ok(None);
            }
            stamps.push(Stamp::of(&entry?.path()));
        }
    }
    stamps.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Some(stamps))
}

fn are_settled(stamps: &[Stamp]) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let Ok(before) = now.map(|now| now.saturating_sub(SETTLED).as_secs()) else {
        return false;
    };
    let mut found = stamps.iter().filter_map(|stamp| stamp.found.as_ref());
    found.all(|found| u64::try_from(found.changed.0).is_ok_and(|changed| changed < before))
}

// === impl Stamp ===

impl Stamp {
    /// Stamps `path`; follows links.
    fn of(path: &Path) -> Self {
        let found = path.metadata().ok().map(|found| Found {
            device: found.dev(),
            inode: found.ino(),
            length: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        });
        Self {
            path: path.to_owned(),
            found,
        }
    }
}
