//! The state transitions of a claim, through a store.

use dra_checkpoint::{Class, Refused, State};
use durable_file::{Dir, SimDir};

use crate::common::{at, claim, group, open, rewritten, status};

#[test]
fn a_claim_is_started_completed_and_removed() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    assert_eq!(store.view().get("a").unwrap().state, State::Started);

    store
        .commit(|claims| claims.complete("a", &status("p"), vec![group()]))
        .unwrap();
    let (reopened, _) = open(&dir);
    assert_eq!(reopened.view().get("a").unwrap().devices(), [group()]);
    assert_eq!(reopened.view().get("a").unwrap().name, "claim-a");

    for _ in 0..2 {
        store.commit(|claims| claims.remove("a")).unwrap();
        assert_eq!(open(&dir).0.view().records_unchecked().count(), 0);
    }
}

// req: CKPT-16
#[test]
fn the_file_is_private_to_its_owner() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    assert_eq!(dir.mode("checkpoint.json"), Some(0o600));
}

#[test]
fn a_repeated_start_writes_nothing() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    let steps = dir.steps();
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(1)))
        .unwrap();
    assert_eq!(dir.steps(), steps);
}

#[test]
fn an_error_of_the_change_leaves_the_file_as_it_was() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    let before = rewritten(&dir);
    let refused = store.commit(|claims| {
        claims.start(&claim("b"), &status("p"), at(0))?;
        claims.complete("nobody", &status("p"), vec![group()])
    });
    assert!(refused.is_err());
    assert_eq!(rewritten(&dir), before);
    assert!(store.view().get("b").is_none());
}

#[test]
fn a_panicking_change_leaves_the_store_usable() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.commit(|_| -> Result<(), Refused> { panic!("a bug of the caller") })
    }));
    assert!(panicked.is_err());
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
}

#[test]
fn a_claim_that_changed_since_its_start_cannot_be_completed() {
    let (store, _) = open(&SimDir::new());
    let refused = store.commit(|claims| {
        claims.start(&claim("a"), &status("old"), at(0))?;
        claims.complete("a", &status("new"), vec![group()])
    });
    assert!(refused.unwrap_err().to_string().contains("has changed"));
}

#[test]
fn a_start_with_another_status_replaces_a_started_record() {
    let (store, _) = open(&SimDir::new());
    store
        .commit(|claims| claims.start(&claim("a"), &status("old"), at(0)))
        .unwrap();
    store
        .commit(|claims| claims.start(&claim("a"), &status("new"), at(0)))
        .unwrap();
    assert_eq!(store.view().get("a").unwrap().status, status("new"));
}

#[test]
fn a_completed_claim_is_neither_started_nor_completed_nor_aborted_again() {
    let (store, _) = open(&SimDir::new());
    store
        .commit(|claims| {
            claims.start(&claim("a"), &status("p"), at(0))?;
            claims.complete("a", &status("p"), vec![group()])?;
            let completed = Refused::Completed { uid: "a".into() };
            assert_eq!(
                claims.start(&claim("a"), &status("p"), at(0)),
                Err(completed.clone())
            );
            assert_eq!(
                claims.complete("a", &status("p"), vec![]),
                Err(completed.clone())
            );
            let prepared = Refused::Prepared { uid: "a".into() };
            assert_eq!(claims.abort("a", at(0)), Err(prepared));
            // With another status, too: the claim holds the prepared devices.
            assert_eq!(
                claims.start(&claim("a"), &status("q"), at(0)),
                Err(completed)
            );
            assert_eq!(claims.get("a").unwrap().devices(), [group()]);
            Ok::<_, Refused>(())
        })
        .unwrap();
}

#[test]
fn each_refusal_has_a_hint_for_its_cause() {
    let (store, _) = open(&SimDir::new());
    store
        .commit(|claims| {
            let refused = claims.abort("a", at(0)).unwrap_err();
            assert_eq!(refused, Refused::NotStarted { uid: "a".into() });
            assert_eq!(
                claims.complete("a", &status("p"), vec![group()]),
                Err(refused.clone())
            );
            assert!(refused.to_string().contains("no Prepare was started"));
            claims.start(&claim("a"), &status("p"), at(0))?;
            claims.complete("a", &status("p"), vec![group()])?;
            let refused = claims.abort("a", at(0)).unwrap_err();
            assert!(
                refused.hint().contains("remove its record"),
                "{}",
                refused.hint()
            );
            let refused = claims.start(&claim("a"), &status("p"), at(0)).unwrap_err();
            assert!(refused.hint().contains("devices"), "{}", refused.hint());
            Ok::<_, Refused>(())
        })
        .unwrap();
    let (store, _) = open(&crate::common::dir_with(
        "10-v2-no-bootid-25.8-to-25.12.json",
    ));
    let refused = store.commit(|claims| claims.start(&claim("a"), &status("p"), at(0)));
    let hint = refused.unwrap_err().hint();
    assert!(
        hint.contains("effects") && hint.contains("unprepares"),
        "{hint}"
    );
}

#[test]
fn a_started_claim_can_only_be_aborted_not_removed() {
    let (store, _) = open(&SimDir::new());
    store
        .commit(|claims| {
            claims.start(&claim("a"), &status("p"), at(0))?;
            assert_eq!(
                claims.remove("a"),
                Err(Refused::InProgress { uid: "a".into() })
            );
            claims.abort("a", at(1))?;
            claims.remove("a")?;
            Ok::<_, Refused>(())
        })
        .unwrap();
    assert!(matches!(
        store.view().get("a").unwrap().state,
        State::Aborted { .. }
    ));
}

// req: NODE-21
#[test]
fn an_aborted_claim_refuses_the_same_status_for_90_seconds() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    store.commit(|claims| claims.abort("a", at(10))).unwrap();
    // Another process decides alike, because the time is in the file.
    let (other, _) = open(&dir);
    other
        .commit(|claims| {
            let late = claims.start(&claim("a"), &status("p"), at(99));
            let aborted = Refused::Aborted {
                uid: "a".into(),
                until: at(100),
            };
            assert_eq!(aborted.class(), Class::Retry);
            assert_eq!(late, Err(aborted));
            let undone = Refused::NotStarted { uid: "a".into() };
            assert_eq!(
                claims.complete("a", &status("p"), vec![group()]),
                Err(undone)
            );
            claims.start(&claim("a"), &status("p"), at(100))
        })
        .unwrap();
}

#[test]
fn an_aborted_claim_does_not_refuse_another_status() {
    let (store, _) = open(&SimDir::new());
    store
        .commit(|claims| {
            claims.start(&claim("a"), &status("old"), at(0))?;
            claims.abort("a", at(0))?;
            claims.start(&claim("a"), &status("new"), at(1))
        })
        .unwrap();
    assert_eq!(store.view().get("a").unwrap().state, State::Started);
}

#[test]
fn a_repeated_abort_does_not_prolong_the_fence() {
    let (store, _) = open(&SimDir::new());
    store
        .commit(|claims| {
            claims.start(&claim("a"), &status("p"), at(0))?;
            claims.abort("a", at(0))?;
            claims.abort("a", at(80))?;
            assert_eq!(claims.get("a").unwrap().fenced_until(at(89)), Some(at(90)));
            assert_eq!(claims.get("a").unwrap().fenced_until(at(90)), None);
            Ok::<_, Refused>(())
        })
        .unwrap();
}

#[test]
fn a_clock_that_was_set_back_does_not_block_a_claim_for_ever() {
    let (store, _) = open(&SimDir::new());
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    store
        .commit(|claims| claims.abort("a", at(100_000)))
        .unwrap();
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
}

#[test]
fn expired_aborted_claims_are_removed_and_others_stay() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| {
            for uid in ["old", "young", "started"] {
                claims.start(&claim(uid), &status("p"), at(0))?;
            }
            claims.abort("old", at(0))?;
            claims.abort("young", at(50))
        })
        .unwrap();
    let expired = store
        .commit(|claims| Ok::<_, Refused>(claims.expire(at(100))))
        .unwrap();
    assert_eq!(expired, 1);
    let known: Vec<_> = open(&dir)
        .0
        .view()
        .records_unchecked()
        .map(|(uid, _)| uid.to_owned())
        .collect();
    assert_eq!(known, ["started", "young"]);
}

#[test]
fn a_claim_without_an_allocation_can_be_removed() {
    let (store, _) = open(&crate::common::dir_with("12-legacy-25.3.0-rc.2.json"));
    let uid = "66666666-aaaa-4bbb-8ccc-000000000006";
    store
        .commit(move |claims| {
            claims.assume_same_boot()?;
            assert!(!claims.get(uid).unwrap().status.is_allocated());
            assert_eq!(claims.records()?.count(), 1);
            claims.remove(uid)
        })
        .unwrap();
}

// req: CKPT-8
#[test]
fn the_lock_is_held_while_a_change_runs_and_not_after() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let other = dir.clone();
    store
        .commit(move |_| {
            let busy = other
                .lock("pu.lock", std::time::Duration::ZERO)
                .unwrap_err();
            assert_eq!(busy.code(), "lock-timeout");
            Ok::<_, Refused>(())
        })
        .unwrap();
    drop(dir.lock("pu.lock", std::time::Duration::ZERO).unwrap());
}
