//! Same, changed, missing: three answers.

use std::sync::Arc;

use dra_checkpoint::{Boot, BootId, Claims, Refused, Store, Unsettled};
use durable_file::SimDir;

use crate::common::{BOOT, Group, at, boot, claim, dir_with, open, rewritten, status};

const UID: &str = "11111111-aaaa-4bbb-8ccc-000000000001";

fn open_in(dir: &SimDir, boot: &str) -> Store<Group> {
    Store::open(Arc::new(dir.clone()), BootId::new(boot).unwrap())
        .unwrap()
        .0
}

#[test]
fn records_of_this_boot_are_used_as_they_are() {
    let dir = dir_with("02-channel-completed.json");
    let (store, _) = open(&dir);
    assert_eq!(store.view().boot(), &Boot::Same);
    assert_eq!(store.view().all().unwrap().count(), 1);
}

#[test]
fn a_new_checkpoint_is_of_this_boot() {
    let (store, _) = open(&SimDir::new());
    assert_eq!(store.view().boot(), &Boot::Same);
    assert_eq!(store.view().settled(), Ok(()));
}

#[test]
fn records_of_another_boot_are_handed_over_before_they_are_forgotten() {
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
        view.all().err(),
        Some(Unsettled::BootChanged),
        "and it is not taken for held"
    );

    let early = store.commit(|claims| claims.start(&claim("b"), &status("p"), at(0)));
    assert!(early.unwrap_err().to_string().contains("earlier boot"));
    let kept = store.commit(Claims::keep_through_boot);
    assert!(kept.unwrap_err().to_string().contains(BOOT));

    store
        .commit(|claims| {
            claims.forget_earlier_boot();
            Ok::<_, Refused>(())
        })
        .unwrap();
    assert_eq!(store.view().all().unwrap().count(), 0);
    assert_eq!(open_in(&dir, "after-the-reboot").view().boot(), &Boot::Same);
}

#[test]
fn undoing_one_record_of_another_boot_does_not_make_the_rest_current() {
    let dir = dir_with("02-channel-completed.json");
    let store = open_in(&dir, "after-the-reboot");
    assert!(store.commit(|claims| claims.remove(UID)).unwrap());
    let recorded = Boot::Changed {
        recorded: BOOT.into(),
    };
    assert_eq!(open_in(&dir, "after-the-reboot").view().boot(), &recorded);
}

#[test]
fn a_missing_boot_id_is_neither_the_same_boot_nor_another() {
    let dir = dir_with("10-v2-no-bootid-25.8-to-25.12.json");
    let (store, _) = open(&dir);
    assert_eq!(store.view().boot(), &Boot::Missing);
    assert_eq!(store.view().all().err(), Some(Unsettled::BootMissing));

    store.commit(Claims::keep_through_boot).unwrap();
    assert_eq!(store.view().all().unwrap().count(), 1);
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
    assert!(BootId::of_this_host().is_ok());
}
