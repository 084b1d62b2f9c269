//! Crashes after every step of Prepare and Unprepare, and random sequences of calls and kills in two processes against
//! a model that only knows hardware.

use std::collections::BTreeMap;

use dra_checkpoint::Damage;
use gpu_api::TimeSlice;
use gpu_inventory::published::published;

use crate::test_objects::{
    Disks, at, mk_host, mk_host_of, mk_mig_inventory, mk_prepare, mk_shares, mk_sliced, mk_status,
    prepare,
};
use crate::{NodeClaims, Unit, prepared};

/// Checks that the next process resumes or undoes what a crash has interrupted, and loses no GPU.
fn the_next_process_recovers(how: &str, found: &Disks, boot: &str) {
    let (claim, other) = (
        mk_sliced(&["gpu-1", "gpu-2"], "Long"),
        mk_status(&["gpu-2"]),
    );
    let start = || {
        let disks = found.after_kill();
        let (node, report) = disks.try_start(boot, Some(&mk_host())).unwrap();
        assert_eq!(report.damage, Damage::None, "{how}");
        assert!(report.failures.is_empty(), "{how}: {:?}", report.failures);
        (disks, node)
    };
    let (disks, node) = start();
    let is_recorded = !node.recorded_claims().is_empty();
    assert!(
        is_recorded || disks.spec_of("a").is_none(),
        "{how}: a spec without a record"
    );
    let repaired = node.devices().effects.repair(|| node.view(), |_| true);
    let failures = repaired.unwrap().reasons;
    assert!(failures.is_empty(), "{how}: {failures:?}");
    if node.cached_as_prepared("a") {
        assert_eq!(disks.gpus.changed().len(), 2, "{how}");
    }
    // What is changed is known, so it is undone when the claim is gone.
    let known = !node.recorded_claims().is_empty();
    assert!(known || disks.gpus.changed().is_empty(), "{how}");
    let late = mk_prepare(&node, "a", &claim, &mk_host(), at(1000)).unwrap();
    node.prepare(late)
        .unwrap_or_else(|error| panic!("{how}: {error}"));
    assert!(disks.spec_of("a").is_some(), "{how}");

    let (disks, node) = start();
    node.unprepare("a", at(1)).unwrap();
    assert_eq!(disks.spec_of("a"), None, "{how}");
    prepare(&node, "b", &other).unwrap_or_else(|error| panic!("{how}: {error}"));
}

type Operation<'a> = &'a dyn Fn(&NodeClaims);

// req: GPU-36, GPU-60
#[test]
fn prepare_and_unprepare_crashed_anywhere_are_resumed_or_undone() {
    let status = mk_sliced(&["gpu-1", "gpu-2"], "Long");
    let prepare_it = |node: &NodeClaims| drop(prepare(node, "a", &status).unwrap());
    let abort_it = |node: &NodeClaims| {
        let begun = mk_prepare(node, "a", &status, &mk_host(), at(0)).unwrap();
        node.begin(begun).unwrap();
        node.unprepare("a", at(1)).unwrap();
    };
    let unprepare_it = |node: &NodeClaims| node.unprepare("a", at(1)).unwrap();
    let operations: [(bool, Operation<'_>); 3] = [
        (false, &prepare_it),
        (false, &abort_it),
        (true, &unprepare_it),
    ];
    for (is_prepared, operation) in operations {
        let disks = Disks::default();
        if is_prepared {
            prepare_it(&disks.start());
        }
        let disks = disks.after_kill();
        operation(&disks.start());
        let found = disks.every_crash();
        assert!(found.len() > 10, "only {} states", found.len());
        for (how, disks, boot) in &found {
            the_next_process_recovers(how, disks, boot);
        }
    }
}

/// Names and hardware of a node: with MIG devices, and after a change of MIG mode.
fn layouts() -> [(std::sync::Arc<crate::HostGpus>, BTreeMap<String, Unit>); 2] {
    let inventories = [mk_mig_inventory(), crate::test_objects::mk_inventory()];
    inventories.map(|inventory| {
        let host = mk_host_of(&inventory);
        let names = published(&inventory).devices.into_iter();
        let units = names.map(|it| (it.name.clone(), host.get(&it.name).unwrap().unit.clone()));
        let units = units.collect();
        (host, units)
    })
}

/// What a claim was allocated.
struct Allocated {
    layout: usize,
    devices: Vec<String>,
    /// `sharing` of its `GpuConfig`, if it has shares.
    sharing: Option<&'static str>,
}

/// Of a device that a claim holds: `None` if it is not shared, else whether its time slice is changed.
type Settings = Option<bool>;

const LONG: &str = r#"{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}"#;

// req: GPU-32, GPU-36, GPU-53
#[test]
fn two_claims_never_hold_the_same_hardware_whatever_two_processes_do() {
    let layouts = layouts();
    let (mut most, mut shared) = (0, 0);
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let disks = Disks::default();
        let mut processes = [disks.start(), disks.start()];
        let mut history = Vec::new();
        // What each claim was allocated: it does not change. Without `sharing`, it has whole devices.
        let mut claims: BTreeMap<String, Allocated> = BTreeMap::new();
        for step in 0..40 {
            let process = random.usize(..2);
            let uid = format!("claim-{}", random.u32(..6));
            let node = &processes[process];
            match random.u32(..10) {
                0..=5 => {
                    let allocated = claims.entry(uid.clone()).or_insert_with(|| {
                        let layout = random.usize(..2);
                        let names: Vec<_> = layouts[layout].1.keys().cloned().collect();
                        let wanted =
                            (0..random.usize(1..3)).map(|_| random.choice(&names).unwrap().clone());
                        Allocated {
                            layout,
                            devices: wanted.collect(),
                            sharing: random.choice([None, Some("null"), Some(LONG)]).unwrap(),
                        }
                    });
                    let devices = allocated.devices.iter().map(String::as_str);
                    let names: Vec<_> = devices.collect();
                    let status = match allocated.sharing {
                        None => mk_status(&names),
                        Some(sharing) => mk_shares(&names, sharing),
                    };
                    let host = &layouts[allocated.layout].0;
                    let input = mk_prepare(node, &uid, &status, host, at(step * 100)).unwrap();
                    let answer = node.prepare(input).map(drop).map_err(|error| error.code());
                    history.push(format!(
                        "{process}: prepare {uid} {names:?} {:?}: {answer:?}",
                        allocated.sharing
                    ));
                }
                6..=8 => {
                    node.unprepare(&uid, at(step * 100)).unwrap();
                    claims.remove(&uid);
                    history.push(format!("{process}: unprepare {uid}"));
                }
                _ => {
                    processes[process] = disks.start();
                    history.push(format!("{process}: killed"));
                }
            }
            let node = disks.start();
            let held: Vec<(String, Unit, Settings)> = node
                .recorded_claims()
                .into_iter()
                .filter(|claim| node.cached_as_prepared(&claim.uid))
                .flat_map(|claim| {
                    let allocated = &claims[&claim.uid];
                    let layout = &layouts[allocated.layout].1;
                    assert!(disks.spec_of(&claim.uid).is_some(), "{seed}: {history:#?}");
                    allocated.devices.iter().map(move |name| {
                        let is_gpu = !name.contains("-mig-");
                        // Time slices are of whole GPUs only.
                        let settings = allocated.sharing.map(|it| is_gpu && it == LONG);
                        (claim.uid.clone(), layout[name].clone(), settings)
                    })
                })
                .collect();
            for (number, (owner, unit, settings)) in held.iter().enumerate() {
                for (other, its_unit, its_settings) in &held[number + 1..] {
                    let may_share =
                        unit == its_unit && settings.is_some() && settings == its_settings;
                    assert!(
                        owner == other || !unit.overlaps(its_unit) || may_share,
                        "{seed}: {unit}, {history:#?}"
                    );
                    shared += usize::from(owner != other && unit == its_unit);
                }
            }
            for (_, unit, settings) in &held {
                if let Unit::Gpu { uuid } = unit {
                    let is_long = disks.gpus.time_slice(uuid) == TimeSlice::Long;
                    assert_eq!(is_long, *settings == Some(true), "{unit}: {history:#?}");
                }
            }
            most = most.max(held.len());
            let counted: usize = prepared(&node.view()).iter().map(|(_, count)| count).sum();
            assert_eq!(counted, held.len());
        }
    }
    assert!(most > 4, "claims hold {most} devices at most");
    assert!(shared > 100, "{shared} pairs of claims share a device");
}
