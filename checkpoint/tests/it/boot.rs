//! Records of the same, another or an unknown boot.

use std::sync::Arc;

use dra_checkpoint::{Boot, BootId, Claims, RecoveryNeeded, Refused, Store};
use durable_file::{Dir, SimDir};

use crate::common::{BOOT, Group, at, boot, claim, dir_with, group, open, rewritten, status};

const UID: &str = "11111111-aaaa-4bbb-8ccc-000000000001";

fn open_in(dir: &SimDir, boot: &str) -> Store<Group> {
    Store::open(Arc::new(dir.clone()), BootId::new(boot).unwrap())
        .unwrap()
        .0
}

/// Two completed claims, `a` and `b`, of `BOOT`.
fn two_prepared() -> SimDir {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    for uid in ["a", "b"] {
        store
            .commit(move |claims| {
                claims.start(&claim(uid), &status("p"), at(0))?;
                claims.complete(uid, &status("p"), vec![group()])
            })
            .unwrap();
    }
    dir
}

#[test]
fn records_of_this_boot_are_used() {
    let dir = dir_with("02-channel-completed.json");
    let (store, _) = open(&dir);
    assert_eq!(store.view().boot(), &Boot::Same);
    assert_eq!(store.view().records().unwrap().count(), 1);
}

#[test]
fn a_new_checkpoint_is_of_this_boot() {
    let (store, _) = open(&SimDir::new());
    assert_eq!(store.view().boot(), &Boot::Same);
    assert_eq!(store.view().check_recovered(), Ok(()));
}

// req: CKPT-15
#[test]
fn records_of_another_boot_stay_visible_until_they_are_removed() {
    let dir = dir_with("02-channel-completed.json");
    let store = open_in(&dir, "after-the-reboot");
    let view = store.view();
    assert_eq!(
        view.boot(),
        &Boot::Changed {
            recorded: BOOT.into()
        }
    );
    assert!(view.get(UID).is_some(), "its effects can be undone");
    assert_eq!(
        view.records().err(),
        Some(RecoveryNeeded::BootChanged),
        "its device does not count as held"
    );

    let early = store.commit(|claims| claims.start(&claim("b"), &status("p"), at(0)));
    assert!(early.unwrap_err().to_string().contains("earlier boot"));
    let kept = store.commit(Claims::assume_same_boot);
    assert!(kept.unwrap_err().to_string().contains(BOOT));

    store
        .commit(|claims| {
            claims.remove_earlier_boot();
            Ok::<_, Refused>(())
        })
        .unwrap();
    assert_eq!(store.view().records().unwrap().count(), 0);
    assert_eq!(open_in(&dir, "after-the-reboot").view().boot(), &Boot::Same);
}

#[test]
fn removing_one_record_of_another_boot_does_not_make_the_rest_current() {
    let dir = two_prepared();
    let store = open_in(&dir, "after-the-reboot");
    store.commit(|claims| claims.remove("a")).unwrap();
    let recorded = Boot::Changed {
        recorded: BOOT.into(),
    };
    assert_eq!(store.view().boot(), &recorded);
    assert_eq!(open_in(&dir, "after-the-reboot").view().boot(), &recorded);
}

#[test]
fn a_store_is_of_this_boot_after_the_last_record_of_another_is_removed() {
    let dir = two_prepared();
    let store = open_in(&dir, "after-the-reboot");
    for uid in ["a", "b"] {
        store.commit(move |claims| claims.remove(uid)).unwrap();
    }
    assert_eq!(store.view().check_recovered(), Ok(()));
    store
        .commit(|claims| claims.start(&claim("c"), &status("p"), at(0)))
        .unwrap();
    let text = String::from_utf8(rewritten(&dir)).unwrap();
    assert!(
        text.ends_with(r#""nodeBootID":"after-the-reboot"}}"#),
        "{text}"
    );
}

#[test]
fn after_a_reboot_without_records_claims_are_prepared_as_usual() {
    let dir = two_prepared();
    let (before, _) = open(&dir);
    for uid in ["a", "b"] {
        before.commit(move |claims| claims.remove(uid)).unwrap();
    }
    let store = open_in(&dir, "after-the-reboot");
    assert_eq!(store.view().boot(), &Boot::Same);
    store
        .commit(|claims| {
            claims.start(&claim("c"), &status("p"), at(0))?;
            claims.complete("c", &status("p"), vec![group()])
        })
        .unwrap();
    assert_eq!(open_in(&dir, "after-the-reboot").view().boot(), &Boot::Same);
}

#[test]
fn an_aborted_record_of_another_boot_expires_like_any() {
    let dir = SimDir::new();
    open(&dir)
        .0
        .commit(|claims| {
            claims.start(&claim("a"), &status("p"), at(0))?;
            claims.abort("a", at(0))
        })
        .unwrap();
    let store = open_in(&dir, "after-the-reboot");
    assert_eq!(
        store.view().check_recovered(),
        Err(RecoveryNeeded::BootChanged)
    );
    store
        .commit(|claims| Ok::<_, Refused>(claims.expire(at(90))))
        .unwrap();
    assert_eq!(store.view().check_recovered(), Ok(()));
}

#[test]
fn a_damaged_empty_checkpoint_of_another_boot_stays_of_that_boot() {
    let dir = two_prepared();
    let (before, _) = open(&dir);
    for uid in ["a", "b"] {
        before.commit(move |claims| claims.remove(uid)).unwrap();
    }
    dir.replace("checkpoint.json.damaged-not-json", b"{", 0o600)
        .unwrap();
    let store = open_in(&dir, "after-the-reboot");
    assert!(matches!(store.view().boot(), Boot::Changed { .. }));
    store
        .commit(|claims| {
            claims.mark_rebuilt();
            Ok::<_, Refused>(())
        })
        .unwrap();
    assert_eq!(store.view().check_recovered(), Ok(()));
}

// req: CKPT-15
#[test]
fn a_missing_boot_id_is_neither_this_boot_nor_another() {
    let dir = dir_with("10-v2-no-bootid-25.8-to-25.12.json");
    let (store, _) = open(&dir);
    assert_eq!(store.view().boot(), &Boot::Missing);
    assert_eq!(
        store.view().records().err(),
        Some(RecoveryNeeded::BootMissing)
    );

    store.commit(Claims::assume_same_boot).unwrap();
    assert_eq!(store.view().records().unwrap().count(), 1);
    let text = String::from_utf8(rewritten(&dir)).unwrap();
    assert!(
        text.ends_with(&format!(r#""nodeBootID":"{BOOT}"}}}}"#)),
        "{text}"
    );
}

#[test]
fn a_boot_id_is_one_line() {
    assert_eq!(BootId::new(&format!("{BOOT}\n")).unwrap(), boot());
    assert_eq!(BootId::new(" \n").unwrap_err().code(), "boot-id-invalid");
    assert!(BootId::new("a\nb").is_err());
    assert!(BootId::current().is_ok());
}
