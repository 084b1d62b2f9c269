//! Tests of `SimDir`: steps, failures, and the state after a crash.
#![expect(clippy::unwrap_used, reason = "test helpers")]

use std::path::Path;
use std::time::Duration;

use durable_file::sim::{Cause, enumerate};
use durable_file::{Dir, SimDir, Step};

const ENOSPC: i32 = 28;

fn with_old() -> SimDir {
    let dir = SimDir::new();
    dir.replace("state", b"old", 0o600).unwrap();
    dir
}

fn content(dir: &SimDir) -> Vec<u8> {
    dir.read("state").unwrap().unwrap()
}

#[test]
fn a_replace_syncs_the_content_before_the_name_and_the_name_last() {
    let dir = SimDir::new();
    dir.replace("state", b"new", 0o600).unwrap();
    let steps = dir.steps();
    let [
        Step::Create(temp),
        Step::Write,
        Step::SyncFile,
        Step::Rename(from, to),
        Step::SyncDir,
    ] = &steps[..]
    else {
        panic!("{steps:?}")
    };
    assert_eq!((temp, to.as_str()), (from, "state"));
    assert!(temp.starts_with('.') && Path::new(temp).extension().is_some_and(|e| e == "tmp"));
    assert_eq!(dir.mode("state"), Some(0o600));
}

#[test]
fn a_file_with_the_right_content_and_another_mode_is_replaced_once() {
    let dir = SimDir::new();
    dir.replace("state", b"same", 0o600).unwrap();
    assert!(dir.ensure("state", b"same", 0o644).unwrap());
    assert_eq!(dir.mode("state"), Some(0o644));
    assert!(!dir.ensure("state", b"same", 0o644).unwrap());
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_content() {
    let total = with_old().steps().len();
    for step in 0..=total {
        let dir = with_old();
        dir.crash_after(step);
        let done = dir.replace("state", b"new", 0o600).is_ok();
        assert_eq!(done, step == total);
        for after in [dir.after_kill(), dir.after_power_loss()] {
            let found = content(&after);
            assert!(
                found == b"new" || (!done && found == b"old"),
                "step {step}: {found:?}"
            );
            assert_eq!(after.list().unwrap(), ["state"], "step {step}");
        }
        assert_eq!(
            done,
            content(&dir.after_power_loss()) == b"new",
            "step {step}"
        );
    }
}

#[test]
fn an_unsynced_rename_survives_a_kill_but_not_a_power_loss() {
    let dir = with_old();
    dir.crash_after(4);
    dir.replace("state", b"new", 0o600).unwrap_err();
    assert_eq!(content(&dir.after_kill()), b"new");
    assert_eq!(content(&dir.after_power_loss()), b"old");
    let killed = dir.after_kill();
    assert_eq!(content(&killed.after_power_loss()), b"old");
    killed.sync().unwrap();
    assert_eq!(content(&killed.after_power_loss()), b"new");
}

#[test]
fn a_failure_at_any_step_is_an_error_and_leaves_no_temp_file() {
    let total = with_old().steps().len();
    for step in 0..total {
        let dir = with_old();
        dir.fail_step(step, ENOSPC);
        let err = dir.replace("state", b"new", 0o600).unwrap_err();
        assert_eq!(err.code(), "disk-full", "step {step}");
        let (message, of_directory) = (err.to_string(), step == total - 1);
        assert!(!message.contains(".tmp"), "{message}");
        assert_eq!(message.ends_with("/state"), !of_directory, "{message}");
        let renamed = step == total - 1;
        assert_eq!(content(&dir), if renamed { b"new" } else { b"old" });
        let created = dir
            .steps()
            .iter()
            .filter(|s| matches!(s, Step::Create(_)))
            .count();
        let gone = |s: &&Step| matches!(s, Step::Remove(_) | Step::Rename(..));
        assert_eq!(
            created,
            dir.steps().iter().filter(gone).count(),
            "step {step}"
        );

        dir.replace("state", b"newer", 0o600).unwrap();
        assert_eq!(content(&dir.after_power_loss()), b"newer");
    }
}

#[test]
fn after_a_failed_fsync_a_new_file_is_written() {
    let dir = with_old();
    dir.fail_step(2, ENOSPC);
    dir.replace("state", b"new", 0o600).unwrap_err();
    let before = dir.steps().len();
    dir.replace("state", b"new", 0o600).unwrap();
    assert!(matches!(dir.steps()[before], Step::Create(_)));
}

#[test]
fn a_repeated_remove_is_durable_even_if_the_first_died_before_its_fsync() {
    let dir = with_old();
    dir.crash_after(1);
    dir.remove("state").unwrap_err();
    let dir = dir.after_kill();
    assert_eq!(dir.read("state").unwrap(), None);
    dir.remove("state").unwrap();
    assert_eq!(dir.after_power_loss().read("state").unwrap(), None);
}

#[test]
fn clones_share_one_directory_and_its_locks() {
    let ours = with_old();
    let theirs = ours.clone();
    let (_, version) = ours.read_version("state").unwrap().unwrap();
    let lock = theirs.lock("pu.lock", Duration::ZERO).unwrap();
    assert_eq!(
        ours.lock("pu.lock", Duration::ZERO).unwrap_err().code(),
        "lock-timeout"
    );
    drop(lock);
    drop(ours.lock("pu.lock", Duration::ZERO).unwrap());

    assert!(ours.is_current("state", &version).unwrap());
    theirs.replace("state", b"old", 0o600).unwrap();
    assert!(!ours.is_current("state", &version).unwrap());
}

#[test]
fn a_lock_leaves_an_empty_file_like_on_a_disk() {
    let scratch = tempfile::tempdir().unwrap();
    let real = durable_file::OsDir::open(scratch.path()).unwrap();
    let simulated = SimDir::new();
    for dir in [&real as &dyn Dir, &simulated] {
        drop(dir.lock("pu.lock", Duration::ZERO).unwrap());
        assert_eq!(dir.list().unwrap(), ["pu.lock"]);
        assert_eq!(dir.read("pu.lock").unwrap().unwrap(), b"");
        // A second lock does not replace the file.
        let (_, version) = dir.read_version("pu.lock").unwrap().unwrap();
        drop(dir.lock("pu.lock", Duration::ZERO).unwrap());
        assert!(dir.is_current("pu.lock", &version).unwrap());
    }
    assert_eq!(simulated.steps(), [], "a lock is not a step");
}

#[test]
fn the_directory_after_a_crash_has_no_steps_and_nothing_armed() {
    let dir = with_old();
    dir.fail_step(0, ENOSPC);
    dir.crash_after(0);
    assert!(dir.has_crashed());
    for next in [dir.after_kill(), dir.after_power_loss()] {
        assert_eq!(next.steps(), []);
        assert!(!next.has_crashed());
        next.replace("state", b"new", 0o600).unwrap();
    }
}

#[test]
fn a_second_power_loss_changes_nothing() {
    let read = |dir: &SimDir| dir.read("state").unwrap();
    let counts = enumerate(
        |dir| {
            dir.replace("state", b"old", 0o600).unwrap();
            dir.replace("state", b"new", 0o600).unwrap();
        },
        |crash| {
            for again in crash.dir.crashes() {
                let is_same = read(&again.dir) == read(&crash.dir);
                assert!(is_same || crash.cause == Cause::Kill, "{crash}, {again}");
            }
        },
    );
    assert!(counts.states > counts.crash_points, "{counts}");
}
