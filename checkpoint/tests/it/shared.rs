//! Two processes with one checkpoint.

use std::sync::Arc;

use dra_checkpoint::{Boot, Class, CommitError, Refused, Store};
use durable_file::{OsDir, SimDir};

use crate::common::{BOOT, Group, at, boot, claim, fixture, group, open, status};

// req: CKPT-9
#[test]
fn a_commit_sees_the_commits_of_another_process() {
    let dir = SimDir::new();
    let (ours, _) = open(&dir);
    let (theirs, _) = open(&dir);
    theirs
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    ours.commit(|claims| claims.complete("a", &status("p"), vec![group()]))
        .unwrap();
    let refused = theirs.commit(|claims| claims.complete("a", &status("p"), vec![group()]));
    assert!(matches!(
        refused,
        Err(CommitError::Refused(Refused::Completed { .. }))
    ));
    assert_eq!(theirs.view().get("a").unwrap().devices(), [group()]);
}

// req: CKPT-9
#[test]
fn a_running_store_reads_a_file_that_go_has_written() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Arc::new(OsDir::open(scratch.path()).unwrap());
    let (store, _) = Store::<Group>::open(dir, boot()).unwrap();
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();

    let temp = scratch.path().join(".1234");
    std::fs::write(&temp, fixture("02-channel-completed.json")).unwrap();
    std::fs::rename(&temp, scratch.path().join("checkpoint.json")).unwrap();

    let seen = store
        .commit(|claims| Ok::<_, Refused>(claims.records_unchecked().count()))
        .unwrap();
    assert_eq!(seen, 1);
    assert!(store.view().get("a").is_none(), "Go's file is the truth");
    assert_eq!(store.view().boot(), &Boot::Same);
}

// req: CKPT-1
#[test]
fn the_file_on_disk_has_gos_name_and_form() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Arc::new(OsDir::create(scratch.path().join("plugin"), 0o750).unwrap());
    let (store, _) = Store::<Group>::open(dir, boot()).unwrap();
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    let text = std::fs::read_to_string(scratch.path().join("plugin/checkpoint.json")).unwrap();
    assert!(
        text.starts_with(r#"{"checksum":1083090442,"v1":{},"v2":{"checksum":"#),
        "{text}"
    );
    assert!(
        text.ends_with(&format!(r#""nodeBootID":"{BOOT}"}}}}"#)),
        "{text}"
    );
    assert!(scratch.path().join("plugin/pu.lock").exists());
}

#[test]
fn a_removed_plugin_directory_that_is_back_gets_every_record() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("plugin");
    let dir = Arc::new(OsDir::create(&path, 0o750).unwrap());
    let (store, _) = Store::<Group>::open(dir, boot()).unwrap();
    let start = |uid: &'static str| {
        store.commit(move |claims| claims.start(&claim(uid), &status("p"), at(0)))
    };
    start("a").unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let Err(CommitError::Store(err)) = start("b") else {
        panic!("the directory is missing")
    };
    assert_eq!(
        (err.code(), err.class()),
        ("directory-missing", Class::Retry)
    );

    std::fs::create_dir(&path).unwrap();
    start("b").unwrap();
    let fresh = Store::<Group>::open(Arc::new(OsDir::open(&path).unwrap()), boot()).unwrap();
    assert_eq!(fresh.0.view().records_unchecked().count(), 2);
}
