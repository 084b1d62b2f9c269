//! Crashes after, and failures of, every step of Prepare and Unprepare.

use dra_checkpoint::Damage;
use durable_file::SimDir;
use durable_file::sim::{Cause, Crash};

use crate::test_objects::{Disks, at, mk_claim, prepare};
use crate::{Class, NodeClaims, prepared_channels};

/// The boot in which the operations under test run.
const BOOT: u32 = 1;

/// The node's state after a crash, and the boot in which it is found.
struct Found {
    /// For messages.
    how: String,
    disks: Disks,
    boot: u32,
    /// Whether the operation under test had returned.
    acknowledged: bool,
}

// === impl Found ===

impl Found {
    /// A crash in `boot`. Copies `checkpoint` and `cdi`.
    fn new(crash: &Crash, boot: u32, checkpoint: &SimDir, cdi: &SimDir) -> Self {
        Self {
            how: crash.to_string(),
            disks: Disks {
                checkpoint: checkpoint.after_kill(),
                cdi: cdi.after_kill(),
                ..Disks::default()
            },
            boot: match crash.cause {
                Cause::Kill => boot,
                Cause::PowerLoss => boot + 1,
            },
            acknowledged: crash.acknowledged > 0,
        }
    }

    /// Starts on a copy, because a start changes the directories.
    fn start(&self) -> (Disks, NodeClaims) {
        let disks = self.disks.after_kill();
        let (node, report) = disks
            .try_start(&format!("boot-{}", self.boot))
            .unwrap_or_else(|error| panic!("{}: {error:?}", self.how));
        assert_eq!(report.damage, Damage::None, "{}", self.how);
        assert!(
            report.failures.is_empty(),
            "{}: {:?}",
            self.how,
            report.failures
        );
        (disks, node)
    }

    fn has_rebooted(&self) -> bool {
        self.boot != BOOT
    }
}

/// Every state that a crash in `boot` could leave of the two directories. After
/// a power loss the CDI directory may also be empty: it usually is a tmpfs.
fn every_crash(disks: &Disks, boot: u32) -> Vec<Found> {
    let mut all = Vec::new();
    let mut add = |crash: &Crash, checkpoint: &SimDir, cdi: &SimDir| {
        all.push(Found::new(crash, boot, checkpoint, cdi));
        if crash.cause == Cause::PowerLoss {
            all.push(Found::new(crash, boot, checkpoint, &SimDir::new()));
        }
    };
    for crash in disks.checkpoint.crashes() {
        for cdi in disks.cdi.crashes_with(&crash) {
            add(&crash, &crash.dir, &cdi.dir);
        }
    }
    for crash in disks.cdi.crashes() {
        for checkpoint in disks.checkpoint.crashes_with(&crash) {
            add(&crash, &checkpoint.dir, &crash.dir);
        }
    }
    all
}

/// Runs `operation` on the claim and `check` on every state that a crash of it
/// could leave.
fn crashed_everywhere(
    prepared_before: bool,
    operation: impl Fn(&NodeClaims),
    check: impl Fn(&Found),
) {
    let disks = Disks::default();
    if prepared_before {
        prepare(&disks.start(), &mk_claim("claim-1")).unwrap();
    }
    let disks = disks.after_kill();
    operation(&disks.start());
    disks.checkpoint.acknowledge();
    disks.cdi.acknowledge();
    let steps = disks.checkpoint.steps().len() + disks.cdi.steps().len();
    assert!(steps > 0, "the operation has no steps");
    let found = every_crash(&disks, BOOT);
    println!("{steps} steps, {} states", found.len());
    found.iter().for_each(check);
}

/// Runs `operation` once per step of either directory. The directory stops working
/// after that step, while the process continues. Then runs `check` on the state that
/// the next process finds.
fn dead_after_every_step(
    prepared_before: bool,
    operation: impl Fn(&NodeClaims),
    check: impl Fn(&Found),
) {
    for of_cdi in [false, true] {
        for step in 0.. {
            let disks = Disks::default();
            let node = disks.start();
            if prepared_before {
                prepare(&node, &mk_claim("claim-1")).unwrap();
            }
            let dead = if of_cdi {
                &disks.cdi
            } else {
                &disks.checkpoint
            };
            dead.crash_after(step);
            operation(&node);
            if !disks.has_crashed() {
                assert!(step > 0, "the operation has no steps");
                break;
            }
            check(&Found {
                how: format!("CDI directory: {of_cdi}, dead after step {step}"),
                disks: disks.after_kill(),
                boot: BOOT,
                acknowledged: false,
            });
        }
    }
}

fn file_without_record(disks: &Disks, node: &NodeClaims) -> bool {
    let claim = mk_claim("claim-1");
    disks.spec_of(&claim).is_some() && !node.recorded_claims().contains(&claim)
}

/// Checks the invariants after any crash: start, Prepare and Unprepare work, and
/// the device is not lost.
fn the_next_process_recovers(found: &Found) {
    let how = &found.how;
    let claim = mk_claim("claim-1");
    let (disks, node) = found.start();
    assert!(!file_without_record(&disks, &node), "{how}");
    // Resumed:
    prepare(&node, &claim).unwrap();
    assert!(disks.spec_of(&claim).is_some(), "{how}");
    // Undone, after which another claim gets the device:
    let (disks, node) = found.start();
    node.unprepare("claim-1", at(1)).unwrap();
    assert_eq!(disks.spec_of(&claim), None, "{how}");
    assert_eq!(prepared_channels(&node.view()), 0, "{how}");
    prepare(&node, &mk_claim("claim-2")).unwrap();
    // The same after a crash during the start.
    let (disks, _) = found.start();
    for again in every_crash(&disks, found.boot) {
        let (disks, node) = again.start();
        assert!(
            !file_without_record(&disks, &node),
            "{how}, then {}",
            again.how
        );
    }
}

// req: NODE-16, NODE-22
#[test]
fn prepare_crashed_anywhere_is_resumed_or_undone() {
    let prepare_it = |node: &NodeClaims| drop(prepare(node, &mk_claim("claim-1")).unwrap());
    crashed_everywhere(false, prepare_it, |found| {
        the_next_process_recovers(found);
        let (disks, node) = found.start();
        if found.acknowledged && !found.has_rebooted() {
            assert_eq!(prepared_channels(&node.view()), 1, "{}", found.how);
            assert!(disks.spec_of(&mk_claim("claim-1")).is_some());
        }
        if found.has_rebooted() {
            assert_eq!(prepared_channels(&node.view()), 0, "{}", found.how);
        }
    });
}

// req: NODE-19, NODE-22
#[test]
fn unprepare_crashed_anywhere_is_finished_by_the_next_unprepare() {
    let unprepare_it = |node: &NodeClaims| node.unprepare("claim-1", at(1)).unwrap();
    crashed_everywhere(true, unprepare_it, |found| {
        the_next_process_recovers(found);
        let (disks, node) = found.start();
        if found.acknowledged || found.has_rebooted() {
            assert_eq!(prepared_channels(&node.view()), 0, "{}", found.how);
            assert_eq!(disks.spec_of(&mk_claim("claim-1")), None, "{}", found.how);
        }
    });
}

#[test]
fn the_next_process_recovers_from_a_directory_that_fails_at_any_step() {
    let prepare_it = |node: &NodeClaims| drop(prepare(node, &mk_claim("claim-1")));
    dead_after_every_step(false, prepare_it, the_next_process_recovers);
    let unprepare_it = |node: &NodeClaims| drop(node.unprepare("claim-1", at(1)));
    dead_after_every_step(true, unprepare_it, the_next_process_recovers);
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
