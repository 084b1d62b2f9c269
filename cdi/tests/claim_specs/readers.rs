//! What readers see of a file that is written, removed and written again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use durable_file::OsDir;
use imex_cdi::{ClaimSpecs, Kind};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tempfile::TempDir;

use crate::{FILE, SPEC, UID, channel, uid};

const READERS: usize = 3;

/// How often the file is written, at least.
const WRITES: usize = 300;

/// Only for giving up.
const DEADLINE: Duration = Duration::from_secs(60);

/// The contents that readers saw; `None` where there was no file.
type Seen = BTreeSet<Option<String>>;

/// Runs readers that read `path` over and over, while `write` is called with ascending numbers
/// until `enough` accepts what they saw.
fn seen_while(path: &Path, mut write: impl FnMut(usize), enough: impl Fn(&Seen) -> bool) -> Seen {
    let (stop, seen) = (AtomicBool::new(false), Mutex::new(Seen::new()));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let text = fs::read_to_string(path).ok();
                    seen.lock().unwrap().insert(text);
                }
            });
        }
        let started = Instant::now();
        for round in 0.. {
            write(round);
            let late = started.elapsed() > DEADLINE;
            if late || (round >= WRITES && enough(&seen.lock().unwrap())) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    seen.into_inner().unwrap()
}

fn whole_or_absent(dir: &TempDir) {
    let path = dir.path().join(FILE);
    let opened = Arc::new(OsDir::open(dir.path()).unwrap());
    let specs = ClaimSpecs::new(opened, Kind::compute_domain_claim());
    let claim = uid(UID);
    let write = |round: usize| match round % 5 {
        4 => specs.remove(&claim).unwrap(),
        n => {
            let major = if n.is_multiple_of(2) { 235 } else { 511 };
            drop(specs.ensure(&claim, &channel(0, major)).unwrap());
        }
    };
    let versions = [Some(SPEC.to_owned()), Some(SPEC.replace("235", "511"))];
    let expected: Seen = versions.into_iter().chain([None]).collect();
    let seen = seen_while(&path, write, |seen| seen.is_superset(&expected));
    assert_eq!(seen, expected, "each state of the file, and no part of one");
}

/// A directory in memory, as `/var/run/cdi` is one; `None` where there is none.
fn in_memory() -> Option<TempDir> {
    let parent = PathBuf::from("/dev/shm");
    let found = statfs(&parent).ok()?;
    (found.filesystem_type() == TMPFS_MAGIC).then(|| tempfile::tempdir_in(parent).unwrap())
}

// req: CDI-4
#[test]
fn readers_on_a_disk_never_see_a_part_of_a_spec() {
    whole_or_absent(&tempfile::tempdir().unwrap());
}

#[test]
fn readers_in_memory_never_see_a_part_of_a_spec() {
    match in_memory() {
        Some(dir) => whole_or_absent(&dir),
        None => println!("SKIPPED: /dev/shm is no tmpfs"),
    }
}

/// A test of the test: readers do see what a writer in place does.
#[test]
fn readers_see_parts_of_what_is_written_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    let is_part = |text: &Option<String>| text.as_ref().is_some_and(|text| text != SPEC);
    let seen = seen_while(
        &path,
        |_| fs::write(&path, SPEC).unwrap(),
        |seen| seen.iter().any(is_part),
    );
    assert!(seen.iter().any(is_part), "{seen:?}");
}

/// What a runtime does on each event in the directory: the claim's device
/// resolves, or the file is not there; no load ever finds a bad file.
// req: CDI-4
#[test]
#[cfg(feature = "inject")]
fn a_registry_loaded_at_any_moment_has_no_bad_file() {
    use imex_cdi::Registry;

    let dir = tempfile::tempdir().unwrap();
    let opened = Arc::new(OsDir::open(dir.path()).unwrap());
    let specs = ClaimSpecs::new(opened, Kind::compute_domain_claim());
    let (claim, stop) = (uid(UID), AtomicBool::new(false));
    let loads = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut with, mut without) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                let registry = Registry::load(&[dir.path()]);
                for file in registry.files() {
                    assert!(file.spec.is_ok(), "{:?}", file.spec);
                }
                match registry.devices().count() {
                    0 => without += 1,
                    _ => with += 1,
                }
            }
            (with, without)
        });
        for round in 0..WRITES {
            match round % 3 {
                2 => specs.remove(&claim).unwrap(),
                0 => drop(specs.ensure(&claim, &channel(0, 235)).unwrap()),
                _ => drop(specs.ensure(&claim, &channel(0, 511)).unwrap()),
            }
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    println!("{} loads with the device, {} without", loads.0, loads.1);
    assert!(loads.0 > 0 && loads.1 > 0, "{loads:?}");
}
