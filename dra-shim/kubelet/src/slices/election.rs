//! Elects the instance that publishes, among the instances on one data directory (several
//! run during a rolling update): the newest registered instance, or the newest if none is
//! registered.
//!
//! Each instance has an empty lock file `publisher-DRIVER-CLASS-STARTED.lock` in the data
//! directory, which drivers with other names may share. The instance holds an exclusive
//! `flock` on it for its whole life. The kernel releases the lock when the process dies, so
//! a file that can be locked belongs to a dead instance and is removed. CLASS is 1 once
//! kubelet has registered the instance. STARTED is its start in nanoseconds since the Unix
//! epoch, and is higher than in every file that existed at that time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::file_id::file_id;

const PREFIX: &str = "publisher-";
const SUFFIX: &str = ".lock";

/// This instance's candidacy among the instances on its data directory.
#[derive(Debug)]
pub(super) struct Election {
    directory: PathBuf,
    driver: String,
    own: Option<LockFile>,
}

/// The rank of an instance: the highest is elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    registered: bool,
    started: u64,
}

/// A lock file of this instance, locked. Dropping it removes the file.
#[derive(Debug)]
struct LockFile {
    rank: Rank,
    path: PathBuf,
    file: File,
}

// === impl Rank ===

impl Rank {
    fn file_name(self, driver: &str) -> String {
        let class = u8::from(self.registered);
        format!("{PREFIX}{driver}-{class}-{:020}{SUFFIX}", self.started)
    }

    /// Returns `None` for a file that is not a lock file of this driver.
    fn parse(name: &str, driver: &str) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?.strip_prefix(driver)?;
        let middle = rest.strip_prefix('-')?.strip_suffix(SUFFIX)?;
        let (class, started) = middle.split_once('-')?;
        let rank = Self {
            registered: class == "1",
            started: started.parse().ok()?,
        };
        (rank.file_name(driver) == name).then_some(rank)
    }
}

// === impl LockFile ===

impl LockFile {
    /// Returns `None` if another instance has this name.
    fn create(path: PathBuf, rank: Rank) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        // Before it was locked, another instance may have removed it as a dead instance's file.
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => Ok(Some(Self { rank, path, file })),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn exists(&self) -> bool {
        is_at(&self.file, &self.path)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if self.exists() {
            // On failure, the next check of another instance removes the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

// === impl Election ===

impl Election {
    pub(super) const fn new(directory: PathBuf, driver: String) -> Self {
        Self {
            directory,
            driver,
            own: None,
        }
    }

    /// Whether this instance is elected. First creates this instance's lock file if it is
    /// missing, or one of higher rank once the instance is `registered`. Removes the files of
    /// all dead instances: a crash loop would leave one for each crash. Blocks for a short
    /// time.
    // req: KUBELET-46
    pub(super) fn is_elected(&mut self, registered: bool) -> io::Result<bool> {
        let rank = self.ensure_lock_file(registered)?;
        let mut is_highest = true;
        for other in self.candidates()? {
            if other != rank && self.is_alive(other)? && other > rank {
                is_highest = false;
            }
        }
        Ok(is_highest)
    }

    /// Makes sure that this instance has its lock file, and returns its rank.
    fn ensure_lock_file(&mut self, registered: bool) -> io::Result<Rank> {
        let before = self.own.as_ref().map(|own| own.rank);
        if let Some(own) = &self.own
            && own.rank.registered >= registered
            && own.exists()
        {
            return Ok(own.rank);
        }
        let mut rank = match before {
            Some(before) => before,
            None => Rank {
                registered,
                started: self.next_start()?,
            },
        };
        rank.registered |= registered;
        loop {
            if let Some(own) = LockFile::create(self.path(rank), rank)? {
                self.own = Some(own); // drops the previous one
                return Ok(rank);
            }
            rank.started = rank.started.saturating_add(1);
        }
    }

    fn next_start(&self) -> io::Result<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let newest = self
            .candidates()?
            .into_iter()
            .map(|rank| rank.started)
            .max();
        Ok(newest.map_or(now, |newest| now.max(newest.saturating_add(1))))
    }

    fn path(&self, rank: Rank) -> PathBuf {
        self.directory.join(rank.file_name(&self.driver))
    }

    /// The ranks of all lock files of this driver, also of dead instances.
    fn candidates(&self) -> io::Result<Vec<Rank>> {
        let mut ranks = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            ranks.extend(
                name.to_str()
                    .and_then(|name| Rank::parse(name, &self.driver)),
            );
        }
        Ok(ranks)
    }

    /// Whether the instance is alive. Removes the lock file of a dead one.
    fn is_alive(&self, rank: Rank) -> io::Result<bool> {
        let path = self.path(rank);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        // A shared lock: instances that check a file at the same time must not take each
        // other's lock for that of a live instance.
        match file.try_lock_shared() {
            Ok(()) => {
                if is_at(&file, &path) {
                    remove(&path)?;
                }
                Ok(false)
            }
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the path still refers to the open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), file_id(path)) {
        (Ok(file), Ok(there)) => (file.dev(), file.ino()) == there,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    const DRIVER: &str = "a.example.com";

    fn mk_election(directory: &tempfile::TempDir) -> Election {
        Election::new(directory.path().to_owned(), DRIVER.into())
    }

    fn lock_files(directory: &tempfile::TempDir) -> usize {
        fs::read_dir(directory.path()).unwrap().count()
    }

    // req: KUBELET-46
    #[test]
    fn the_older_instance_remains_elected_until_the_newer_is_registered() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_election(&directory), mk_election(&directory));
        assert!(old.is_elected(false).unwrap());
        assert!(old.is_elected(true).unwrap());
        assert!(!new.is_elected(false).unwrap());
        assert!(old.is_elected(true).unwrap());
        assert!(new.is_elected(true).unwrap());
        assert!(!old.is_elected(true).unwrap());
        assert_eq!(lock_files(&directory), 2);
    }

    #[test]
    fn drivers_that_share_a_data_directory_each_have_their_own_election() {
        let directory = tempfile::tempdir().unwrap();
        let mut ours = mk_election(&directory);
        // One name is a prefix of another driver's lock file.
        let names = ["b.example.com", "a.example.com-1"];
        let mut theirs =
            names.map(|name| Election::new(directory.path().to_owned(), name.to_owned()));
        assert!(ours.is_elected(true).unwrap());
        for election in &mut theirs {
            assert!(election.is_elected(true).unwrap());
        }
        assert!(ours.is_elected(true).unwrap());
        assert_eq!(lock_files(&directory), 3);
    }

    #[test]
    fn the_newest_of_the_unregistered_instances_is_elected() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_election(&directory), mk_election(&directory));
        assert!(old.is_elected(false).unwrap());
        assert!(new.is_elected(false).unwrap());
        assert!(!old.is_elected(false).unwrap());
    }

    #[test]
    fn the_older_is_elected_again_when_the_newer_ends() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_election(&directory), mk_election(&directory));
        assert!(old.is_elected(true).unwrap());
        assert!(new.is_elected(true).unwrap());
        assert!(!old.is_elected(true).unwrap());
        drop(new);
        assert!(old.is_elected(true).unwrap());
    }

    #[test]
    fn lock_files_of_killed_instances_are_removed_at_any_rank() {
        for (registered, started) in [(true, u64::MAX / 2), (true, 1), (false, 1)] {
            let directory = tempfile::tempdir().unwrap();
            let dead = Rank {
                registered,
                started,
            };
            fs::write(directory.path().join(dead.file_name(DRIVER)), "").unwrap();
            let mut election = mk_election(&directory);
            assert!(election.is_elected(registered).unwrap());
            assert_eq!(lock_files(&directory), 1, "{dead:?}");
        }
    }

    const HOLDER: &str = "slices::election::tests::hold_a_lock_file_for_another_process";

    /// Not a test: the next test runs it in a separate process.
    #[test]
    #[ignore = "run by another test"]
    fn hold_a_lock_file_for_another_process() {
        let directory = std::env::var_os("ELECTION_DIRECTORY").expect("set by the other test");
        let mut election = Election::new(directory.into(), DRIVER.into());
        assert!(election.is_elected(true).unwrap());
        println!("holding");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn killing_the_elected_process_elects_another() {
        let directory = tempfile::tempdir().unwrap();
        let mut old = mk_election(&directory);
        assert!(old.is_elected(true).unwrap());
        let mut new = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", HOLDER, "--ignored", "--nocapture"])
            .env("ELECTION_DIRECTORY", directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(new.stdout.take().unwrap()).lines();
        let held = lines.any(|line| line.unwrap().contains("holding"));
        let is_elected = held && old.is_elected(true).unwrap();
        new.kill().unwrap();
        new.wait().unwrap();
        assert!(held && !is_elected);
        assert!(old.is_elected(true).unwrap());
    }

    #[test]
    fn a_deleted_lock_file_is_created_again_with_the_same_rank() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_election(&directory), mk_election(&directory));
        old.is_elected(true).unwrap();
        new.is_elected(true).unwrap();
        for entry in fs::read_dir(directory.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        assert!(new.is_elected(true).unwrap());
        assert!(!old.is_elected(true).unwrap());
        assert!(new.is_elected(true).unwrap());
    }

    #[test]
    fn other_files_of_the_driver_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let foreign = [
            "checkpoint.json",
            "publisher-a.example.com-2-1.lock",
            "publisher-a.example.com-1-1.lock",
        ];
        for name in foreign {
            fs::write(directory.path().join(name), "").unwrap();
        }
        assert!(mk_election(&directory).is_elected(true).unwrap());
        assert_eq!(lock_files(&directory), foreign.len());
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut election = Election::new(directory.path().join("missing"), DRIVER.into());
        assert_eq!(
            election.is_elected(true).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
