//! What claims change on GPUs, and that it is undone: in order, after failures, and after crashes of random calls.

use std::collections::BTreeMap;

use gpu_api::TimeSlice;
use node_claims::{Begun, Devices as _};

use crate::test_objects::{
    Disks, SimGpus, at, mk_claim, mk_host, mk_inventory, mk_prepare, mk_shares, mk_sliced,
    mk_status, mk_status_with, prepare,
};
use crate::{HardwareError, NodeClaims, NotRepaired, prepared};

fn uuid(gpu: usize) -> String {
    mk_inventory().gpus[gpu].uuid.known().unwrap().clone()
}

fn failure(text: &str) -> HardwareError {
    HardwareError::Failed {
        reason: text.to_owned(),
    }
}

fn repair(node: &NodeClaims) -> Vec<String> {
    let repaired = node.devices().effects.repair(|| node.view(), |_| true);
    repaired.unwrap().reasons
}

// req: GPU-60
#[test]
fn a_time_slice_is_set_for_a_claim_that_asks_and_default_again_after_it() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, "plain", &mk_status(&["gpu-0"])).unwrap();
    prepare(&node, "default", &mk_sliced(&["gpu-4"], "Default")).unwrap();
    assert_eq!(
        disks.gpus.state.steps().len(),
        0,
        "nothing is set unless a claim asks"
    );
    prepare(&node, "a", &mk_sliced(&["gpu-1", "gpu-2"], "Long")).unwrap();
    assert_eq!(disks.gpus.time_slice(&uuid(1)), TimeSlice::Long);
    assert_eq!(disks.gpus.time_slice(&uuid(2)), TimeSlice::Long);
    assert_eq!(disks.gpus.changed().len(), 2);
    assert_eq!(disks.journals(), ["a.json"]);
    // The Go driver's Unprepare undoes it, too.
    assert!(
        disks
            .checkpoint_text()
            .contains(r#""timeSliceApplied":true"#)
    );
    node.unprepare("a", at(1)).unwrap();
    assert!(disks.gpus.changed().is_empty());
    assert!(disks.journals().is_empty());
}

// req: GPU-62
#[test]
fn a_time_slice_that_the_driver_does_not_support_is_refused_by_the_drivers_words() {
    let disks = Disks::default();
    let node = disks.start();
    *disks.gpus.failure.lock().unwrap() = Some(HardwareError::NotSupported {
        reason: "Not Supported".to_owned(),
    });
    let error = prepare(&node, "a", &mk_sliced(&["gpu-1"], "Long")).unwrap_err();
    let expected = format!(
        "the time slice of GPU {} cannot be changed: Not Supported",
        uuid(1)
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.code(), "time-slice-not-supported");
    prepare(&node, "b", &mk_status(&["gpu-2"])).unwrap();
    *disks.gpus.failure.lock().unwrap() = None;
    node.unprepare("a", at(1)).unwrap();
    assert!(disks.journals().is_empty());
}

// req: GPU-63
#[test]
fn a_broken_gpu_does_not_keep_a_claim_from_its_end_and_is_restored_later() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, "a", &mk_sliced(&["gpu-1"], "Long")).unwrap();
    *disks.gpus.failure.lock().unwrap() = Some(failure("nvidia-smi hangs"));
    node.unprepare("a", at(1)).unwrap();
    assert!(node.view().get("a").is_none() && disks.spec_of("a").is_none());
    assert_eq!(disks.gpus.time_slice(&uuid(1)), TimeSlice::Long);
    let expected = format!(
        "claim default/a-name:a: the time slice of {} cannot be set to Default: nvidia-smi hangs",
        uuid(1)
    );
    assert_eq!(repair(&node), [expected]);
    // A claim does not get a GPU with the time slice of an ended one.
    let error = prepare(&node, "b", &mk_status(&["gpu-1"])).unwrap_err();
    assert_eq!(error.code(), "gpu-not-changed");
    prepare(&node, "c", &mk_status(&["gpu-2"])).unwrap();
    *disks.gpus.failure.lock().unwrap() = None;
    assert_eq!(repair(&disks.start()), Vec::<String>::new());
    assert!(disks.gpus.changed().is_empty() && disks.journals().is_empty());
    prepare(&node, "b", &mk_status(&["gpu-1"])).unwrap();
}

// req: GPU-63
#[test]
fn the_next_claim_of_a_gpu_restores_what_an_ended_one_has_left() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, "a", &mk_sliced(&["gpu-1"], "Long")).unwrap();
    *disks.gpus.failure.lock().unwrap() = Some(failure("busy"));
    node.unprepare("a", at(1)).unwrap();
    *disks.gpus.failure.lock().unwrap() = None;
    prepare(&node, "b", &mk_status(&["gpu-1"])).unwrap();
    assert!(disks.gpus.changed().is_empty());
    node.unprepare("b", at(2)).unwrap();
    prepare(&node, "c", &mk_sliced(&["gpu-1"], "Short")).unwrap();
    let effects = &node.devices().effects;
    let repaired = effects.repair(|| node.view(), |_| false).unwrap();
    assert_eq!(repaired, NotRepaired::default());
    assert_eq!(
        disks.gpus.time_slice(&uuid(1)),
        TimeSlice::Short,
        "c needs it"
    );
    assert_eq!(disks.journals(), ["c.json"]);
}

// req: GPU-63
#[test]
fn only_claims_that_are_due_are_changed_again() {
    let disks = Disks::default();
    let node = disks.start();
    for (claim, gpu) in [("a", "gpu-1"), ("b", "gpu-2")] {
        prepare(&node, claim, &mk_sliced(&[gpu], "Long")).unwrap();
    }
    *disks.gpus.failure.lock().unwrap() = Some(failure("busy"));
    let effects = &node.devices().effects;
    let repair = |due: &str| effects.repair(|| node.view(), |claim| claim.uid == due);
    let failed: Vec<_> = repair("b").unwrap().claims.into_iter().collect();
    assert_eq!(failed, [mk_claim("b")]);
    let calls = disks.gpus.state.steps().len();
    *disks.gpus.failure.lock().unwrap() = None;
    assert_eq!(repair("b").unwrap(), NotRepaired::default());
    assert_eq!(disks.gpus.state.steps().len(), calls + 1, "a is not due");
}

// req: GPU-61
#[test]
fn a_journal_without_a_record_is_asked_about_before_anything_is_undone() {
    let disks = Disks::default();
    let before = Disks::default();
    prepare(&disks.start(), "a", &mk_sliced(&["gpu-1"], "Long")).unwrap();
    // An older checkpoint is copied back, and the specs are gone.
    let found = Disks {
        checkpoint: before.checkpoint,
        cdi: before.cdi,
        ..disks.after_kill()
    };
    let node = found.start();
    assert_eq!(repair(&node), Vec::<String>::new());
    assert_eq!(found.gpus.changed().len(), 1, "a pod may be running");
    assert_eq!(node.recorded_claims(), [mk_claim("a")]);
    assert!(node.may_be_in_use("a"));
    node.unprepare("a", at(1)).unwrap();
    assert!(found.gpus.changed().is_empty() && found.journals().is_empty());
    assert!(node.recorded_claims().is_empty());
}

// req: GPU-61
#[test]
fn a_start_sets_the_time_slices_of_prepared_claims_again() {
    let disks = Disks::default();
    prepare(&disks.start(), "a", &mk_sliced(&["gpu-1"], "Medium")).unwrap();
    let reloaded = Disks {
        gpus: SimGpus::default(),
        ..disks.after_kill()
    };
    let node = reloaded.start();
    assert_eq!(repair(&node), Vec::<String>::new());
    assert_eq!(reloaded.gpus.time_slice(&uuid(1)), TimeSlice::Medium);
}

// req: GPU-61
#[test]
fn a_reboot_removes_records_and_journals() {
    let disks = Disks::default();
    prepare(&disks.start(), "a", &mk_sliced(&["gpu-1"], "Medium")).unwrap();
    let rebooted = Disks {
        gpus: SimGpus::default(),
        ..disks.after_kill()
    };
    let (node, _) = rebooted.try_start("boot-2", Some(&mk_host())).unwrap();
    assert!(node.recorded_claims().is_empty() && rebooted.journals().is_empty());
    assert_eq!(repair(&node), Vec::<String>::new());
    assert!(rebooted.gpus.changed().is_empty());
}

// req: GPU-64
#[test]
fn a_time_slice_that_the_go_driver_has_set_is_undone_after_its_record() {
    let disks = Disks::default();
    prepare(&disks.start(), "a", &mk_sliced(&["gpu-1"], "Long")).unwrap();
    // The Go driver has no journal.
    let of_go = Disks {
        effects: durable_file::SimDir::new(),
        ..disks.after_kill()
    };
    let node = of_go.start();
    *of_go.gpus.failure.lock().unwrap() = Some(failure("busy"));
    node.unprepare("a", at(1)).unwrap();
    *of_go.gpus.failure.lock().unwrap() = None;
    assert_eq!(of_go.journals(), ["a.json"], "it is not forgotten");
    assert_eq!(repair(&node), Vec::<String>::new());
    assert!(of_go.gpus.changed().is_empty() && of_go.journals().is_empty());
}

// req: GPU-53, GPU-60
#[test]
fn claims_that_share_a_gpu_have_one_time_slice_until_the_last_of_them_ends() {
    const LONG: &str = r#"{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}"#;
    let disks = Disks::default();
    let node = disks.start();
    for uid in ["a", "b", "c"] {
        prepare(&node, uid, &mk_shares(&["gpu-1"], LONG)).unwrap();
    }
    let error = prepare(&node, "d", &mk_shares(&["gpu-1"], "null")).unwrap_err();
    assert_eq!(error.code(), "shared-config-conflict", "{error}");
    assert_eq!(disks.gpus.time_slice(&uuid(1)), TimeSlice::Long);
    for uid in ["b", "a"] {
        node.unprepare(uid, at(1)).unwrap();
        assert_eq!(
            disks.gpus.time_slice(&uuid(1)),
            TimeSlice::Long,
            "after {uid}"
        );
    }
    node.unprepare("d", at(1)).unwrap();
    node.unprepare("c", at(1)).unwrap();
    assert!(disks.gpus.changed().is_empty() && disks.journals().is_empty());
    prepare(&node, "e", &mk_shares(&["gpu-1"], "null")).unwrap();
}

// req: GPU-18
#[test]
fn a_claim_with_admin_access_changes_nothing_and_restores_nothing() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, "a", &mk_sliced(&["gpu-1"], "Long")).unwrap();
    prepare(&node, "admin", &mk_status_with(&["gpu-1"], true)).unwrap();
    node.unprepare("admin", at(1)).unwrap();
    assert_eq!(disks.gpus.time_slice(&uuid(1)), TimeSlice::Long);
}

// req: GPU-60
#[test]
fn a_claim_that_is_allocated_again_changes_its_new_gpu_and_restores_the_old_one() {
    let disks = Disks::default();
    let node = disks.start();
    let before = mk_sliced(&["gpu-1"], "Long");
    let prepare_it = mk_prepare(&node, "a", &before, &mk_host(), at(0)).unwrap();
    let Begun::Started(started) = node.begin(prepare_it).unwrap() else {
        panic!("it is prepared already");
    };
    let view = || node.read_view();
    let changed = node.devices().change(&view, &mk_claim("a"), &started.plan);
    drop(changed.unwrap());
    assert_eq!(disks.gpus.changed(), [uuid(1)], "killed before its end");
    prepare(&node, "a", &mk_sliced(&["gpu-2"], "Long")).unwrap();
    assert_eq!(disks.gpus.changed(), [uuid(2)]);
}

#[test]
fn a_journal_that_cannot_be_read_is_reported_and_blocks_nothing() {
    use durable_file::Dir as _;
    let disks = Disks::default();
    for (name, text) in [("x.json", "{"), ("y.json", "[]"), ("GPU-1.lock", "")] {
        disks.effects.replace(name, text.as_bytes(), 0o600).unwrap();
    }
    let node = disks.start();
    prepare(&node, "a", &mk_sliced(&["gpu-1"], "Long")).unwrap();
    let failures = repair(&node);
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].starts_with("x.json: "), "{failures:?}");
    node.unprepare("a", at(1)).unwrap();
    assert!(disks.gpus.changed().is_empty());
}

// req: GPU-63
#[test]
fn a_journal_that_is_no_file_is_reported_and_blocks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("x.json")).unwrap();
    let dir = durable_file::OsDir::open(dir.path()).unwrap();
    let (journals, unreadable) = super::read_all(&dir).unwrap();
    assert!(journals.is_empty());
    assert!(unreadable[0].starts_with("x.json: "), "{unreadable:?}");
}

/// Random calls of one process that is killed in the middle of some, while the GPUs fail now and then. A model knows
/// what the scheduler has allocated: each GPU to one claim.
struct Run {
    random: fastrand::Rng,
    disks: Disks,
    node: NodeClaims,
    /// The claims, with their GPU and time slice. A new claim has a new UID.
    claims: BTreeMap<String, (usize, TimeSlice)>,
    created: usize,
    /// Whether the start after the last kill has repaired everything.
    is_repaired: bool,
    history: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disks = Disks::default();
        Self {
            random: fastrand::Rng::with_seed(seed),
            node: disks.start(),
            disks,
            claims: BTreeMap::new(),
            created: 0,
            is_repaired: true,
            history: Vec::new(),
        }
    }

    fn step(&mut self) {
        let uids: Vec<_> = self.claims.keys().cloned().collect();
        match (self.random.u32(..10), self.random.choice(uids)) {
            (0..=2, _) => self.create(),
            (3..=4, Some(uid)) => self.prepare(&uid),
            (5..=7, Some(uid)) => self.unprepare(&uid),
            (8, _) => {
                let fails = self.random.bool();
                self.history.push(format!("GPUs fail: {fails}"));
                *self.disks.gpus.failure.lock().unwrap() = fails.then(|| failure("busy"));
            }
            _ => self.repair(),
        }
        if self.random.u32(..4) == 0 {
            self.kill();
        }
    }

    /// A claim on a GPU that no other claim is allocated.
    fn create(&mut self) {
        let taken: Vec<_> = self.claims.values().map(|(gpu, _)| *gpu).collect();
        let free: Vec<_> = (0..4).filter(|gpu| !taken.contains(gpu)).collect();
        let Some(gpu) = self.random.choice(free) else {
            return;
        };
        let time_slice = *self.random.choice(&TimeSlice::ALL).unwrap();
        self.created += 1;
        let uid = format!("claim-{}", self.created);
        self.claims.insert(uid.clone(), (gpu, time_slice));
        self.prepare(&uid);
    }

    fn prepare(&mut self, uid: &str) {
        let (gpu, time_slice) = self.claims[uid];
        let status = mk_sliced(&[&format!("gpu-{gpu}")], time_slice.as_str());
        let prepare = mk_prepare(&self.node, uid, &status, &mk_host(), at(1000)).unwrap();
        let answer = self.node.prepare(prepare).map(drop).map_err(|it| it.code());
        self.history.push(format!(
            "prepare {uid} gpu-{gpu} {time_slice:?}: {answer:?}"
        ));
    }

    fn unprepare(&mut self, uid: &str) {
        self.node.unprepare(uid, at(1)).unwrap();
        self.history.push(format!("unprepare {uid}"));
        self.claims.remove(uid);
    }

    fn repair(&mut self) {
        self.is_repaired |= repair(&self.node).is_empty();
    }

    /// Goes back to a moment since the last kill. Claims that have ended after it end again, as kubelet and the
    /// reconciler would repeat it.
    fn kill(&mut self) {
        self.history.push("kill".to_owned());
        self.disks = self.disks.after_random_kill(&mut self.random);
        self.node = self.disks.start();
        self.is_repaired = false;
        self.repair();
        for claim in self.node.recorded_claims() {
            if !self.claims.contains_key(&claim.uid) {
                self.unprepare(&claim.uid);
            }
        }
    }

    fn check(&self) {
        for gpu in 0..4 {
            let holder = self
                .claims
                .iter()
                .find(|(uid, (it, _))| *it == gpu && self.node.cached_as_prepared(uid));
            if let Some((uid, (_, wanted))) = holder.filter(|_| self.is_repaired) {
                let found = self.disks.gpus.time_slice(&uuid(gpu));
                assert_eq!(found, *wanted, "{uid} gpu-{gpu}: {:#?}", self.history);
            }
            if self.disks.gpus.time_slice(&uuid(gpu)) != TimeSlice::Default {
                let journals = super::read_all(&self.disks.effects).unwrap().0;
                let mut gpus = journals.values().flat_map(super::JournalFile::gpus);
                let is_known = gpus.any(|it| it == uuid(gpu));
                assert!(is_known, "gpu-{gpu}: {:#?}", self.history);
            }
        }
    }

    fn end(&mut self) {
        *self.disks.gpus.failure.lock().unwrap() = None;
        for uid in self.claims.clone().into_keys() {
            self.unprepare(&uid);
        }
        let failures = repair(&self.node);
        assert!(failures.is_empty(), "{failures:?}");
        let held = prepared(&self.node.view());
        assert!(
            held.iter().all(|(_, count)| *count == 0),
            "{:#?}",
            self.history
        );
        assert!(self.disks.journals().is_empty(), "{:#?}", self.history);
        let changed = self.disks.gpus.changed();
        assert!(changed.is_empty(), "{changed:?}: {:#?}", self.history);
    }
}

/// Another number of seeds than that of every test run; 20000 take minutes.
const SEEDS: &str = "GPU_EFFECTS_SEEDS";

// req: GPU-60, GPU-61, GPU-63
#[test]
fn whatever_is_called_and_killed_hardware_is_as_prepared_claims_want_it_and_default_at_the_end() {
    let seeds = std::env::var(SEEDS).map_or(60, |text| text.parse().unwrap());
    for seed in 0..seeds {
        let mut run = Run::new(seed);
        run.history.push(format!("seed {seed}"));
        for _ in 0..20 {
            run.step();
            run.check();
        }
        run.end();
    }
}
