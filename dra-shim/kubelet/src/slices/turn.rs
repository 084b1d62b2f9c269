//! Whose turn it is to publish when several instances of the driver run on one
//! data directory, as in a rolling update: the newest one that kubelet has
//! registered, and until there is one, the newest.
//!
//! Each instance holds a ticket: an empty file `publisher-DRIVER-CLASS-STARTED.lock`
//! in the data directory, which drivers of other names may share, under an exclusive `flock` for as long as the instance lives.
//! The kernel gives the lock up when the process dies, however it dies, so a ticket
//! that can be locked is a dead one's and is removed. Class 1 means that kubelet
//! knows the instance; STARTED is its start in nanoseconds of the Unix epoch, at
//! least one more than any ticket seen.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sockets::file_id;

const PREFIX: &str = "publisher-";
const SUFFIX: &str = ".lock";

/// Tickets in order: a later one has the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    registered: bool,
    started: u64,
}

impl Rank {
    fn file_name(self, driver: &str) -> String {
        let class = u8::from(self.registered);
        format!("{PREFIX}{driver}-{class}-{:020}{SUFFIX}", self.started)
    }

    /// None for what is not a ticket of this driver.
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

/// A file of ours, locked. Dropped, it is gone.
#[derive(Debug)]
struct Ticket {
    rank: Rank,
    path: PathBuf,
    file: File,
}

impl Ticket {
    /// None if the name is another's.
    fn take(path: PathBuf, rank: Rank) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        // Another instance may have looked in between and taken it for a dead one's.
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => Ok(Some(Self { rank, path, file })),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_there(&self) -> bool {
        is_at(&self.file, &self.path)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_there() {
            // Whoever looks next removes what stays behind.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// This instance among those on its data directory.
#[derive(Debug)]
pub(super) struct Turn {
    directory: PathBuf,
    driver: String,
    ticket: Option<Ticket>,
}

impl Turn {
    pub(super) const fn new(directory: PathBuf, driver: String) -> Self {
        Self {
            directory,
            driver,
            ticket: None,
        }
    }

    /// Whether it is this instance's turn. Takes the ticket first, again if a
    /// cleaner removed it, and a better one once `registered`. Blocking, short.
    pub(super) fn look(&mut self, registered: bool) -> io::Result<bool> {
        let rank = self.hold(registered)?;
        for other in self.tickets()? {
            if other > rank && self.is_alive(other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn hold(&mut self, registered: bool) -> io::Result<Rank> {
        let before = self.ticket.as_ref().map(|ticket| ticket.rank);
        if let Some(ticket) = &self.ticket
            && ticket.rank.registered >= registered
            && ticket.is_there()
        {
            return Ok(ticket.rank);
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
            if let Some(ticket) = Ticket::take(self.path(rank), rank)? {
                self.ticket = Some(ticket); // the old one goes now
                return Ok(rank);
            }
            rank.started = rank.started.saturating_add(1);
        }
    }

    fn next_start(&self) -> io::Result<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let newest = self.tickets()?.into_iter().map(|rank| rank.started).max();
        Ok(newest.map_or(now, |newest| now.max(newest.saturating_add(1))))
    }

    fn path(&self, rank: Rank) -> PathBuf {
        self.directory.join(rank.file_name(&self.driver))
    }

    fn tickets(&self) -> io::Result<Vec<Rank>> {
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

    /// Removes the ticket of a dead one.
    fn is_alive(&self, rank: Rank) -> io::Result<bool> {
        let path = self.path(rank);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        // Shared: several that look at a dead one do not take each other for it.
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

/// Whether the path still leads to the open file.
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

    fn mk_turn(directory: &tempfile::TempDir) -> Turn {
        Turn::new(directory.path().to_owned(), DRIVER.into())
    }

    fn tickets(directory: &tempfile::TempDir) -> usize {
        fs::read_dir(directory.path()).unwrap().count()
    }

    #[test]
    fn the_newest_registered_instance_has_the_turn_and_until_then_the_older_keeps_it() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_turn(&directory), mk_turn(&directory));
        assert!(old.look(false).unwrap());
        assert!(old.look(true).unwrap());
        assert!(!new.look(false).unwrap());
        assert!(old.look(true).unwrap());
        assert!(new.look(true).unwrap());
        assert!(!old.look(true).unwrap());
        assert_eq!(tickets(&directory), 2);
    }

    #[test]
    fn drivers_that_share_a_data_directory_each_have_their_own_turn() {
        let directory = tempfile::tempdir().unwrap();
        let mut ours = mk_turn(&directory);
        // Also where one name begins another's ticket.
        let names = ["b.example.com", "a.example.com-1"];
        let mut theirs = names.map(|name| Turn::new(directory.path().to_owned(), name.to_owned()));
        assert!(ours.look(true).unwrap());
        for turn in &mut theirs {
            assert!(turn.look(true).unwrap());
        }
        assert!(ours.look(true).unwrap());
        assert_eq!(tickets(&directory), 3);
    }

    #[test]
    fn of_instances_that_kubelet_does_not_know_the_newest_has_the_turn() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_turn(&directory), mk_turn(&directory));
        assert!(old.look(false).unwrap());
        assert!(new.look(false).unwrap());
        assert!(!old.look(false).unwrap());
    }

    #[test]
    fn the_older_takes_its_turn_back_when_the_newer_ends() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_turn(&directory), mk_turn(&directory));
        assert!(old.look(true).unwrap());
        assert!(new.look(true).unwrap());
        assert!(!old.look(true).unwrap());
        drop(new);
        assert!(old.look(true).unwrap());
    }

    #[test]
    fn a_killed_instances_ticket_counts_for_nothing_and_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let dead = Rank {
            registered: true,
            started: u64::MAX / 2,
        };
        fs::write(directory.path().join(dead.file_name(DRIVER)), "").unwrap();
        let mut turn = mk_turn(&directory);
        assert!(turn.look(false).unwrap());
        assert_eq!(tickets(&directory), 1);
    }

    const HOLDER: &str = "slices::turn::tests::hold_a_ticket_for_another_process";

    /// Not a test: what the next one runs as a process of its own.
    #[test]
    #[ignore = "run by another test"]
    fn hold_a_ticket_for_another_process() {
        let directory = std::env::var_os("TURN_DIRECTORY").expect("set by the other test");
        let mut turn = Turn::new(directory.into(), DRIVER.into());
        assert!(turn.look(true).unwrap());
        println!("holding");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn the_kill_of_another_process_ends_its_turn() {
        let directory = tempfile::tempdir().unwrap();
        let mut old = mk_turn(&directory);
        assert!(old.look(true).unwrap());
        let mut new = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", HOLDER, "--ignored", "--nocapture"])
            .env("TURN_DIRECTORY", directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(new.stdout.take().unwrap()).lines();
        let held = lines.any(|line| line.unwrap().contains("holding"));
        let has_turn = held && old.look(true).unwrap();
        new.kill().unwrap();
        new.wait().unwrap();
        assert!(held && !has_turn);
        assert!(old.look(true).unwrap());
    }

    #[test]
    fn a_ticket_that_a_cleaner_removed_is_taken_again_in_its_old_place() {
        let directory = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (mk_turn(&directory), mk_turn(&directory));
        old.look(true).unwrap();
        new.look(true).unwrap();
        for entry in fs::read_dir(directory.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        assert!(new.look(true).unwrap());
        assert!(!old.look(true).unwrap());
        assert!(new.look(true).unwrap());
    }

    #[test]
    fn other_files_of_the_driver_are_none_of_its_business() {
        let directory = tempfile::tempdir().unwrap();
        let foreign = [
            "checkpoint.json",
            "publisher-a.example.com-2-1.lock",
            "publisher-a.example.com-1-1.lock",
        ];
        for name in foreign {
            fs::write(directory.path().join(name), "").unwrap();
        }
        assert!(mk_turn(&directory).look(true).unwrap());
        assert_eq!(tickets(&directory), foreign.len());
    }

    #[test]
    fn a_missing_directory_is_an_error_that_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let mut turn = Turn::new(directory.path().join("missing"), DRIVER.into());
        assert_eq!(turn.look(true).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
