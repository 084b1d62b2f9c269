//! Alone in its program: a child shares every descriptor of its parent for a
//! moment before its exec closes them, those of other tests' locks too.

use std::process::Command;
use std::time::Duration;

use durable_file::{Dir, OsDir};

/// Shorter than the child lives.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_lock_does_not_outlive_its_holder_in_a_child_process() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = OsDir::open(scratch.path()).unwrap();
    let lock = dir.lock("pu.lock", Duration::ZERO).unwrap();
    let mut child = Command::new("sleep").arg("300").spawn().unwrap();
    drop(lock);
    let again = dir.lock("pu.lock", PATIENCE);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(again.unwrap());
}
