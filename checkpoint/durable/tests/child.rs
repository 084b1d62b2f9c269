//! The only test of its program: until its exec, a child shares all descriptors of its
//! parent, including the locks of other tests.

use std::process::Command;
use std::time::Duration;

use durable_file::{Dir, OsDir};

/// Shorter than the child's life.
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
