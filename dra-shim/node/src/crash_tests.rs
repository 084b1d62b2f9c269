//! Every step of Prepare and Unprepare being the last, or failing.

use crate::test_objects::{Disks, at, mk_claim, prepare};
use crate::{Class, Node};

/// Runs `scenario` once per step of either directory with a kill after that
/// step, and `then` on what the next process finds.
fn killed_after_every_step(
    prepared_before: bool,
    scenario: impl Fn(&Node),
    then: impl Fn(&Disks),
) -> usize {
    let mut kills = 0;
    for of_cdi in [false, true] {
        for step in 0.. {
            let disks = Disks::default();
            let node = disks.start();
            if prepared_before {
                prepare(&node, &mk_claim("claim-1")).unwrap();
            }
            if of_cdi {
                disks.cdi.crash_after(step);
            } else {
                disks.checkpoint.crash_after(step);
            }
            scenario(&node);
            if !disks.has_crashed() {
                assert!(step > 0, "the scenario takes no step at all");
                break;
            }
            kills += 1;
            then(&disks.after_kill());
        }
    }
    kills
}

fn no_file_without_record(disks: &Disks) {
    let claim = mk_claim("claim-1");
    let record = disks.start().claims().contains(&claim);
    assert!(
        record || disks.spec_of(&claim).is_none(),
        "a CDI file without a record"
    );
}

#[test]
fn prepare_killed_after_any_step_is_resumed_or_undone() {
    let prepare_it = |node: &Node| drop(prepare(node, &mk_claim("claim-1")));
    let kills = killed_after_every_step(false, prepare_it, |disks| {
        no_file_without_record(disks);
        // Resumed:
        let resumed = disks.after_kill();
        prepare(&resumed.start(), &mk_claim("claim-1")).unwrap();
        assert!(resumed.spec_of(&mk_claim("claim-1")).is_some());
        // Undone, after which another claim gets the device:
        let undone = disks.after_kill();
        let node = undone.start();
        node.unprepare("claim-1", at(1)).unwrap();
        assert_eq!(undone.spec_of(&mk_claim("claim-1")), None);
        prepare(&node, &mk_claim("claim-2")).unwrap();
    });
    assert!(
        kills >= 12,
        "{kills} kills: fewer than two commits and a file have steps"
    );
}

#[test]
fn unprepare_killed_after_any_step_is_finished_by_the_next() {
    let unprepare_it = |node: &Node| drop(node.unprepare("claim-1", at(1)));
    killed_after_every_step(true, unprepare_it, |disks| {
        no_file_without_record(disks);
        let node = disks.start();
        node.unprepare("claim-1", at(2)).unwrap();
        assert_eq!(disks.spec_of(&mk_claim("claim-1")), None);
        assert_eq!(node.prepared_channels(), 0);
        prepare(&node, &mk_claim("claim-2")).unwrap();
    });
}

#[test]
fn every_failing_step_of_prepare_is_an_error_that_the_next_attempt_recovers_from() {
    for step in 0.. {
        let disks = Disks::default();
        let node = disks.start();
        disks.checkpoint.fail_step(step, 28 /* ENOSPC */);
        let first = prepare(&node, &mk_claim("claim-1"));
        prepare(&node, &mk_claim("claim-1")).unwrap();
        assert!(disks.spec_of(&mk_claim("claim-1")).is_some());
        match first {
            Ok(_) => return assert!(step >= 8, "only {step} steps"),
            Err(error) => assert_eq!(error.class(), Class::Retry, "{error}"),
        }
    }
}
