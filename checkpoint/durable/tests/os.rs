//! Tests of `OsDir`, on a real disk.
#![expect(clippy::unwrap_used, reason = "test helpers")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use durable_file::{Class, Dir, Error, OsDir, is_temp_file};

const PATIENCE: Duration = Duration::from_secs(30);

fn scratch() -> (tempfile::TempDir, OsDir) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = OsDir::open(scratch.path()).unwrap();
    (scratch, dir)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_replaced_file_can_be_read_and_no_other_file_is_left() {
    let (scratch, dir) = scratch();
    assert_eq!(dir.read("state").unwrap(), None);
    dir.replace("state", b"one", 0o600).unwrap();
    dir.replace("state", b"two", 0o600).unwrap();
    assert_eq!(dir.read("state").unwrap().unwrap(), b"two");
    assert_eq!(dir.list().unwrap(), ["state"]);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[test]
fn the_mode_is_exactly_the_requested_one() {
    let (scratch, dir) = scratch();
    for wanted in [0o600, 0o644, 0o666, 0o640] {
        dir.replace("state", b"", wanted).unwrap();
        assert_eq!(mode(&scratch.path().join("state")), wanted);
    }
}

#[test]
fn a_file_with_the_right_content_and_another_mode_is_replaced_once() {
    let (scratch, dir) = scratch();
    let path = scratch.path().join("state");
    assert!(dir.ensure("state", b"same", 0o644).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(dir.ensure("state", b"same", 0o644).unwrap());
    assert_eq!(mode(&path), 0o644);
    assert!(!dir.ensure("state", b"same", 0o644).unwrap());
}

#[test]
fn the_type_bits_of_a_mode_are_ignored() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OsDir::open(tmp.path()).unwrap();
    let regular_file = 0o100_644;
    assert!(dir.ensure("state", b"same", regular_file).unwrap());
    assert!(!dir.ensure("state", b"same", regular_file).unwrap());
    assert!(!dir.ensure("state", b"same", 0o644).unwrap());
    dir.replace("state", b"same", regular_file).unwrap();
    assert!(!dir.ensure("state", b"same", 0o644).unwrap());
}

#[test]
fn removing_a_missing_file_succeeds() {
    let (_scratch, dir) = scratch();
    dir.replace("state", b"", 0o600).unwrap();
    dir.remove("state").unwrap();
    dir.remove("state").unwrap();
    assert_eq!(dir.read("state").unwrap(), None);
}

#[test]
fn renaming_keeps_the_content() {
    let (_scratch, dir) = scratch();
    dir.replace("state", b"bad", 0o600).unwrap();
    dir.rename("state", "state.bad").unwrap();
    assert_eq!(dir.list().unwrap(), ["state.bad"]);
    assert_eq!(dir.read("state.bad").unwrap().unwrap(), b"bad");
    assert_eq!(
        dir.rename("state", "state.bad").unwrap_err().code(),
        "file-missing"
    );
}

#[test]
fn a_name_that_is_not_one_component_or_a_temp_files_is_refused() {
    let (_scratch, dir) = scratch();
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "/etc/passwd",
        "a\0b",
        ".durable-1-1.tmp",
        &"n".repeat(256),
    ] {
        let err = dir.replace(name, b"", 0o600).unwrap_err();
        assert_eq!(
            (err.code(), err.class()),
            ("invalid-file-name", Class::Permanent),
            "{name:?}"
        );
        assert_eq!(dir.read(name).unwrap_err().code(), "invalid-file-name");
        assert_eq!(dir.remove(name).unwrap_err().code(), "invalid-file-name");
        assert_eq!(
            dir.lock(name, Duration::ZERO).unwrap_err().code(),
            "invalid-file-name"
        );
    }
}

#[test]
fn the_error_for_an_invalid_name_has_the_violated_rule() {
    let (_scratch, dir) = scratch();
    for (name, rule) in [
        ("", "it is empty"),
        ("..", "it names a directory"),
        ("a/b", "it contains a '/'"),
        ("a\0b", "it contains a NUL"),
        (".durable-1-1.tmp", "it is reserved for temp files"),
    ] {
        let message = dir.read(name).unwrap_err().to_string();
        assert!(message.ends_with(rule), "{message}");
    }
    let longest = "n".repeat(255);
    dir.replace(&longest, b"", 0o600).unwrap();
    assert_eq!(dir.list().unwrap(), [longest]);
}

#[test]
fn a_directory_is_created_with_its_parents_and_an_existing_one_is_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a/b/c");
    OsDir::create(&path, 0o700)
        .unwrap()
        .replace("state", b"x", 0o600)
        .unwrap();
    assert_eq!(mode(&path), 0o700);
    let again = OsDir::create(&path, 0o755).unwrap();
    assert_eq!(mode(&path), 0o700);
    assert_eq!(again.read("state").unwrap().unwrap(), b"x");
}

#[test]
fn the_error_for_a_path_that_is_not_a_directory_has_the_path() {
    let scratch = tempfile::tempdir().unwrap();
    let missing = OsDir::open(scratch.path().join("missing")).unwrap_err();
    assert_eq!(missing.code(), "directory-missing");
    assert!(missing.to_string().contains("missing"), "{missing}");
    fs::write(scratch.path().join("file"), "").unwrap();
    for path in ["file", "file/below"] {
        let path = scratch.path().join(path);
        for err in [
            OsDir::open(&path).unwrap_err(),
            OsDir::create(&path, 0o755).unwrap_err(),
        ] {
            assert_eq!(err.code(), "not-a-directory", "{err}");
        }
    }
}

#[test]
fn a_change_by_another_process_is_detected() {
    let (scratch, dir) = scratch();
    let path = scratch.path().join("state");
    let written = dir.replace("state", b"one", 0o600).unwrap();
    let (_, read) = dir.read_version("state").unwrap().unwrap();
    assert!(dir.is_current("state", &written).unwrap());
    assert!(dir.is_current("state", &read).unwrap());

    // Same content, another file.
    fs::write(scratch.path().join("other"), "one").unwrap();
    fs::rename(scratch.path().join("other"), &path).unwrap();
    assert!(!dir.is_current("state", &written).unwrap());
    assert!(!dir.is_current("state", &read).unwrap());

    // The same file, edited in place.
    let (_, read) = dir.read_version("state").unwrap().unwrap();
    fs::write(&path, "one and more").unwrap();
    assert!(!dir.is_current("state", &read).unwrap());

    let (_, read) = dir.read_version("state").unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!dir.is_current("state", &read).unwrap());
}

#[test]
fn a_version_differs_from_later_files_although_inodes_are_reused() {
    let (scratch, dir) = scratch();
    let path = scratch.path().join("state");
    let known = dir.replace("state", b"one", 0o600).unwrap();
    for _ in 0..100 {
        fs::remove_file(&path).unwrap();
        fs::write(&path, "one").unwrap();
        assert!(!dir.is_current("state", &known).unwrap());
    }
}

#[test]
fn temp_files_of_dead_processes_are_swept_and_those_of_live_ones_are_not() {
    let scratch = tempfile::tempdir().unwrap();
    let dead = scratch.path().join(".durable-4194304-0.tmp");
    let alive = scratch.path().join(".durable-4194304-1.tmp");
    let foreign = scratch.path().join(".123456789");
    for path in [&dead, &alive, &foreign] {
        fs::write(path, "half").unwrap();
    }
    let writer = File::open(&alive).unwrap();
    writer.lock().unwrap();

    let dir = OsDir::open(scratch.path()).unwrap();
    assert!(!dead.exists());
    assert!(alive.exists() && foreign.exists());
    assert_eq!(dir.list().unwrap(), [".123456789"]);
    assert!(is_temp_file(".durable-4194304-1.tmp") && !is_temp_file(".123456789"));
}

#[test]
fn a_directory_or_fifo_is_refused_without_blocking() {
    let (scratch, dir) = scratch();
    fs::create_dir(scratch.path().join("dir")).unwrap();
    let fifo = scratch.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["dir", "fifo"] {
        let err = dir.read(name).unwrap_err();
        assert!(matches!(err, Error::NotAFile { .. }), "{err}");
    }
    fs::write(scratch.path().join("file"), "").unwrap();
    for err in [
        dir.replace("dir", b"", 0o600).unwrap_err(),
        dir.remove("dir").unwrap_err(),
        dir.rename("file", "dir").unwrap_err(),
        dir.lock("dir", PATIENCE).unwrap_err(),
    ] {
        assert_eq!((err.code(), err.class()), ("not-a-file", Class::Retry));
        assert!(err.to_string().contains("/dir "), "{err}");
    }
    assert_eq!(
        dir.list().unwrap(),
        ["dir", "fifo", "file"],
        "no temp file is left"
    );
}

#[test]
fn a_lock_excludes_other_descriptors_of_the_same_file_and_leaves_the_file() {
    let (scratch, dir) = scratch();
    let lock = dir.lock("pu.lock", Duration::ZERO).unwrap();
    // The way in which another process, including Go, takes it.
    let foreign = File::open(scratch.path().join("pu.lock")).unwrap();
    assert!(foreign.try_lock().is_err());
    let err = dir.lock("pu.lock", Duration::from_millis(5)).unwrap_err();
    assert!(err.to_string().contains("another holder"), "{err}");
    assert_eq!((err.code(), err.class()), ("lock-timeout", Class::Retry));

    drop(lock);
    foreign.try_lock().unwrap();
    assert!(dir.lock("pu.lock", Duration::ZERO).is_err());
    drop(foreign);
    drop(dir.lock("pu.lock", Duration::ZERO).unwrap());
    assert!(scratch.path().join("pu.lock").exists());
}

#[test]
fn a_waiting_lock_is_taken_when_it_becomes_free() {
    let (_scratch, dir) = scratch();
    let held = dir.lock("pu.lock", Duration::ZERO).unwrap();
    let (order, seen) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let lock = dir.lock("pu.lock", PATIENCE).unwrap();
            order.send("taken").unwrap();
            drop(lock);
        });
        order.send("released").unwrap();
        drop(held);
    });
    let order: Vec<_> = seen.try_iter().collect();
    assert_eq!(order, ["released", "taken"]);
}

#[test]
fn writers_of_one_file_never_mix_their_contents() {
    let (scratch, dir) = scratch();
    thread::scope(|scope| {
        for byte in [b'a', b'b'] {
            let path = scratch.path();
            scope.spawn(move || {
                for _ in 0..50 {
                    // Each opens and sweeps the directory, like another process.
                    let dir = OsDir::open(path).unwrap();
                    dir.replace("state", &[byte; 10_000], 0o600).unwrap();
                }
            });
        }
    });
    let content = dir.read("state").unwrap().unwrap();
    assert_eq!(content.len(), 10_000);
    assert!(content.iter().all(|byte| *byte == content[0]));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_that_was_removed_and_created_again_is_reopened() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("cdi");
    let dir = OsDir::create(&path, 0o755).unwrap();
    let version = dir.replace("state", b"old", 0o600).unwrap();

    fs::remove_dir_all(&path).unwrap();
    let err = dir.replace("state", b"lost", 0o600).unwrap_err();
    assert_eq!(
        (err.code(), err.class()),
        ("directory-missing", Class::Retry)
    );
    assert_eq!(dir.read("state").unwrap(), None);

    fs::create_dir(&path).unwrap();
    fs::write(path.join("state"), "another's").unwrap();
    fs::write(path.join(".durable-4194304-0.tmp"), "half").unwrap();
    assert!(!dir.is_current("state", &version).unwrap());
    assert_eq!(dir.read("state").unwrap().unwrap(), b"another's");
    assert_eq!(
        fs::read_dir(&path).unwrap().count(),
        1,
        "temp files are swept"
    );
    dir.replace("state", b"new", 0o600).unwrap();
    assert_eq!(fs::read(path.join("state")).unwrap(), b"new");
    dir.remove("state").unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn calls_under_a_lock_use_the_locks_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("plugin");
    let moved = scratch.path().join("moved");
    let dir = OsDir::create(&path, 0o755).unwrap();
    let lock = dir.lock("pu.lock", Duration::ZERO).unwrap();

    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    // Another process now holds the new directory's lock.
    let theirs = OsDir::open(&path).unwrap();
    let other = theirs.lock("pu.lock", Duration::ZERO).unwrap();
    dir.replace("state", b"ours", 0o600).unwrap();
    assert_eq!(theirs.read("state").unwrap(), None);
    assert_eq!(fs::read(moved.join("state")).unwrap(), b"ours");

    drop(lock);
    let err = dir.lock("pu.lock", Duration::ZERO).unwrap_err();
    assert_eq!(err.code(), "lock-timeout", "now it is the same lock");
    drop(other);
    dir.replace("state", b"ours", 0o600).unwrap();
    assert_eq!(theirs.read("state").unwrap().unwrap(), b"ours");
}

#[test]
fn a_relative_path_is_not_looked_up_in_a_later_working_directory() {
    let dir = OsDir::open("src").unwrap();
    assert!(dir.path().is_absolute() && dir.path().ends_with("src"));
}
