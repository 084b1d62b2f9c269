//! Tests with hand-made facts about claims.

use std::collections::BTreeSet;
use std::slice;

use compute_domain_node::SharedMarker;
use gpu_inventory::{Fact, Failure, GpuFacts, GpuInstance, MigDevice, MigFacts, Placement};

use crate::dra_driver::DraDriver;
use crate::facts::claims::ClaimSpecFiles;
use crate::facts::claims::checkpoint_file::SharedDevice;
use crate::facts::claims::checkpoint_file::{HeldChannel, HeldGpu, RecordFacts, Unusable};
use crate::facts::claims::journals::GpuChange;
use crate::facts::claims::kubelet_root::{KubeletRootFacts, OtherRoot};
use crate::finding::Severity;
use crate::kubelet_state::{KubeletClaim, KubeletState};

use super::*;

/// The record of claim `uid` of domain `d`, which opens channel 3.
fn record(uid: &str) -> RecordFacts {
    RecordFacts {
        has_share: false,
        name: Some(format!("n/{uid}")),
        state: "PrepareCompleted",
        is_completed: true,
        channels: vec![HeldChannel {
            channel: 3,
            device: format!("channel-{}", 0),
            domain: "d".to_owned(),
            owner: "d".to_owned(),
        }],
        gpus: BTreeSet::new(),
        held: vec![],
    }
}

/// The claims 1 and 2, prepared, with specs and known to kubelet.
fn facts() -> ClaimFacts {
    let uids = || ["1", "2"].map(str::to_owned).into_iter();
    let claim = |uid: &String| KubeletClaim {
        name: format!("n/{uid}"),
        prepared: true,
        pods: BTreeSet::new(),
    };
    ClaimFacts {
        root: KubeletRootFacts {
            path: "/var/lib/kubelet".to_owned(),
            driver: DraDriver::ComputeDomain,
            exists: true,
            has_plugin: Some(true),
            other: None,
        },
        checkpoint: CheckpointFile::Read(CheckpointFacts {
            records: uids().map(|uid| (uid.clone(), record(&uid))).collect(),
            boot_id: Some("boot".to_owned()),
            damage: None,
            aborted_damage: None,
        }),
        set_aside: vec![],
        aborted_set_aside: vec![],
        sharing: SharedDevice::No,
        boot_id: Some("boot".to_owned()),
        is_registered: Some(true),
        plugin_is_deployed: true,
        stale_sockets: vec![],
        device_plugin_sockets: vec![],
        gpu_changes: BTreeMap::new(),
        specs: ClaimSpecFiles {
            paths: uids()
                .map(|uid| (uid.clone(), format!("/var/run/cdi/{uid}")))
                .collect(),
            is_incomplete: false,
        },
        kubelet: KubeletStateFile::Read(KubeletState {
            claims: uids().map(|uid| (uid.clone(), claim(&uid))).collect(),
        }),
    }
}

fn report(facts: &ClaimFacts) -> AreaReport {
    report_of(slice::from_ref(facts))
}

fn report_of(drivers: &[ClaimFacts]) -> AreaReport {
    let (specs, gpus) = (SpecFacts::default(), Inventory::default());
    check(drivers, &specs, &gpus, &Invocation::default())
}

fn ids(facts: &ClaimFacts) -> Vec<&'static str> {
    report(facts).findings.iter().map(|it| it.id).collect()
}

#[test]
fn claims_in_all_three_places_have_no_finding() {
    assert_eq!(ids(&facts()), [""; 0]);
    let summary = "2 in the checkpoint, 2 with a spec, 2 known to kubelet; 1 domain on channel 3";
    assert_eq!(report(&facts()).summary, summary);
    let line = "1 driver:compute-domain.nvidia.com checkpoint:PrepareCompleted cdi:spec kubelet:prepared channel:3 domain:d\n";
    assert!(facts().table().starts_with(line), "{}", facts().table());
}

/// The same, of the other driver.
fn gpu_facts() -> ClaimFacts {
    let mut gpus = facts();
    gpus.root.driver = DraDriver::Gpu;
    gpus
}

// req: DOCTOR-15
#[test]
fn findings_of_several_drivers_name_the_driver_and_are_not_repeated() {
    let mut drivers = [facts(), gpu_facts()];
    for driver in &mut drivers {
        driver.kubelet = KubeletStateFile::Damaged("torn".to_owned());
        driver.is_registered = Some(false);
    }
    let findings = report_of(&drivers).findings;
    let found = findings.iter().map(|it| (it.id, it.evidence.as_str()));
    let [channels, state, gpus] = found.collect::<Vec<_>>()[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(state, ("kubelet-state-damaged", "torn"));
    for ((id, evidence), driver) in [channels, gpus].into_iter().zip(DraDriver::ALL) {
        assert_eq!(id, "plugin-not-registered");
        assert!(evidence.contains(driver.name()), "{evidence}");
    }
}

#[test]
fn a_claim_missing_in_one_place_is_a_finding() {
    let mut without_spec = facts();
    without_spec.specs.paths.remove("1");
    assert_eq!(ids(&without_spec), ["claim-without-spec"]);
    without_spec.specs.is_incomplete = true;
    assert_eq!(ids(&without_spec), [""; 0]);

    let mut without_kubelet = facts();
    without_kubelet.kubelet = KubeletStateFile::Read(KubeletState {
        claims: BTreeMap::new(),
    });
    let unknown = "claim-unknown-to-kubelet";
    assert_eq!(ids(&without_kubelet), [unknown, unknown]);

    let mut without_record = facts();
    if let CheckpointFile::Read(checkpoint) = &mut without_record.checkpoint {
        checkpoint.records.remove("1");
    }
    assert_eq!(ids(&without_record), ["claim-unknown-to-plugin"]);
    without_record.kubelet = KubeletStateFile::Absent;
    assert_eq!(ids(&without_record), ["spec-without-claim"]);
}

#[test]
fn a_shared_device_is_an_info_and_an_unusable_marker_is_an_error() {
    let found = |sharing| {
        let facts = ClaimFacts { sharing, ..facts() };
        let mut findings = report(&facts).findings;
        let found = findings.pop();
        assert_eq!(findings, []);
        found.map(|it| (it.id, it.severity, it.evidence))
    };
    let shared = |is_dropped| {
        let slots = 64;
        SharedDevice::Shared(SharedMarker { slots, is_dropped })
    };
    let (id, severity, evidence) = found(shared(false)).unwrap();
    assert_eq!((id, severity), ("device-shared", Severity::Info));
    assert!(evidence.contains("2 claims have the device"), "{evidence}");
    let (id, severity, _) = found(shared(true)).unwrap();
    assert_eq!((id, severity), ("device-sharing-dropped", Severity::Info));
    let refused = Unusable {
        reason: "a reason".to_owned(),
        hint: "a hint".to_owned(),
    };
    let (id, severity, _) = found(SharedDevice::Unusable(refused)).unwrap();
    assert_eq!((id, severity), ("device-marker-unusable", Severity::Error));
    assert_eq!(found(SharedDevice::Unknown), None);
    assert_eq!(found(SharedDevice::No), None);
}

#[test]
fn a_missing_marker_is_reported_while_claims_have_shares() {
    let mut facts = facts();
    let CheckpointFile::Read(checkpoint) = &mut facts.checkpoint else {
        unreachable!()
    };
    checkpoint.records.get_mut("2").unwrap().has_share = true;
    let findings = report(&facts).findings;
    let [found] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert_eq!(
        (found.id, found.severity),
        ("device-shared", Severity::Info)
    );
    let evidence = "this file does not exist, but 1 claim has a share of the device";
    assert_eq!(found.evidence, evidence);
}

#[test]
fn no_spec_is_an_orphan_while_lost_records_are_unknown() {
    let mut damaged = facts();
    damaged.kubelet = KubeletStateFile::Absent;
    damaged.checkpoint = CheckpointFile::Read(CheckpointFacts {
        damage: Some(Unusable {
            reason: "it is empty".to_owned(),
            hint: "nothing".to_owned(),
        }),
        ..CheckpointFacts::default()
    });
    assert_eq!(ids(&damaged), ["checkpoint-damaged"]);

    let mut aside = facts();
    aside.kubelet = KubeletStateFile::Absent;
    aside.checkpoint = CheckpointFile::Read(CheckpointFacts::default());
    aside.set_aside = vec!["checkpoint.json.damaged-x".to_owned()];
    assert_eq!(ids(&aside), ["checkpoint-set-aside"]);
}

#[test]
fn the_fix_names_another_kubelet_root() {
    let mut facts = facts();
    facts.checkpoint = CheckpointFile::Absent;
    facts.kubelet = KubeletStateFile::Absent;
    assert_eq!(ids(&facts), ["checkpoint-absent"]);
    facts.root.has_plugin = Some(false);
    facts.root.other = Some(OtherRoot {
        path: "/var/lib/k0s/kubelet".to_owned(),
        evidence: "/var/lib/k0s/kubelet".to_owned(),
    });
    let findings = report(&facts).findings;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].id, "plugin-directory-absent");
    let fix = "cdi-gen doctor --kubelet-root /var/lib/k0s/kubelet";
    assert_eq!(findings[0].fix, fix);
}

#[test]
fn a_host_without_kubelet_is_skipped() {
    let mut facts = facts();
    facts.root.exists = false;
    facts.checkpoint = CheckpointFile::Absent;
    facts.kubelet = KubeletStateFile::Absent;
    facts.specs = ClaimSpecFiles::default();
    let report = report(&facts);
    assert!(report.skipped);
    assert_eq!(report.summary, "no kubelet in /var/lib/kubelet");
}

/// The ids and evidence for two prepared claims of the GPU driver, which hold these devices.
fn of_gpus(
    devices: [&str; 2],
    change: impl FnOnce(&mut ClaimFacts),
) -> Vec<(&'static str, String)> {
    let mut facts = facts();
    facts.root.driver = DraDriver::Gpu;
    let CheckpointFile::Read(checkpoint) = &mut facts.checkpoint else {
        panic!("no checkpoint");
    };
    for (record, device) in checkpoint.records.values_mut().zip(devices) {
        record.channels.clear();
        record.gpus = BTreeSet::from([device.to_owned()]);
    }
    change(&mut facts);
    let findings = report(&facts).findings.into_iter();
    let found = findings.filter(|it| it.id == "gpu-of-two-claims");
    found.map(|it| (it.id, it.evidence)).collect()
}

// req: DOCTOR-15
#[test]
fn a_gpu_that_two_claims_hold_is_an_error_that_names_both() {
    let found = of_gpus(["gpu-0", "gpu-0"], |_| {});
    let evidence = "according to /var/lib/kubelet/plugins/gpu.nvidia.com/checkpoint.json, this device is prepared for claim 1 (n/1) and for claim 2 (n/2), without adminAccess or shares";
    assert_eq!(found, [("gpu-of-two-claims", evidence.to_owned())]);
    assert_eq!(of_gpus(["gpu-0", "gpu-1"], |_| {}), []);
    let gone = of_gpus(["gpu-0", "gpu-0"], |facts| {
        let KubeletStateFile::Read(state) = &mut facts.kubelet else {
            panic!("no state");
        };
        state.claims.remove("2");
    });
    assert_eq!(gone, []);
    let rebooted = of_gpus(["gpu-0", "gpu-0"], |facts| {
        facts.boot_id = Some("later".to_owned());
    });
    assert_eq!(rebooted, []);
}

/// The GPU `GPU-1`, and `GPU-2` with the MIG device `MIG-1`.
fn inventory() -> Inventory {
    let mut inventory = Inventory::default();
    inventory.driver.gpu_count = Fact::Known(2);
    inventory.gpus = Vec::from([0, 1].map(|index| GpuFacts {
        index: Fact::Known(index),
        uuid: Fact::Known(format!("GPU-{}", index + 1)),
        mig: Fact::Known(MigFacts::default()),
        ..GpuFacts::default()
    }));
    inventory.gpus[1].mig = Fact::Known(MigFacts {
        enabled: true,
        pending: true,
        devices: vec![
            Fact::Absent,
            Fact::Known(MigDevice {
                uuid: "MIG-1".to_owned(),
                gpu_instance: GpuInstance {
                    id: 1,
                    profile: 19,
                    placement: Placement { start: 0, size: 1 },
                },
                compute_instance: 0,
                compute_profile: 0,
            }),
        ],
        ..MigFacts::default()
    });
    inventory
}

/// What is said about claim 1 that holds this GPU, or this MIG device of it.
fn gone(
    (gpu, mig): (&str, Option<&str>),
    change: impl FnOnce(&mut Inventory, &mut ClaimFacts),
) -> Option<String> {
    let (mut inventory, mut facts) = (inventory(), gpu_facts());
    let CheckpointFile::Read(checkpoint) = &mut facts.checkpoint else {
        panic!("no checkpoint");
    };
    for record in checkpoint.records.values_mut() {
        record.channels.clear();
    }
    checkpoint.records.get_mut("1").unwrap().held = vec![HeldGpu {
        gpu: gpu.to_owned(),
        mig: mig.map(str::to_owned),
    }];
    change(&mut inventory, &mut facts);
    let (specs, invocation) = (SpecFacts::default(), Invocation::default());
    let report = check(slice::from_ref(&facts), &specs, &inventory, &invocation);
    let mut findings = report.findings.into_iter();
    let found = findings.find(|it| it.id == "gpu-of-claim-gone")?;
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(found.subject, "claim 1 (n/1)");
    Some(found.evidence)
}

// req: DOCTOR-17
#[test]
fn a_device_of_a_claim_that_the_driver_does_not_list_is_reported() {
    let evidence = |end: &str| {
        let file = "/var/lib/kubelet/plugins/gpu.nvidia.com/checkpoint.json";
        Some(format!(
            "according to {file}, this claim holds {end}: its containers have no such device any more"
        ))
    };
    for listed in [("GPU-1", None), ("GPU-2", Some("MIG-1"))] {
        assert_eq!(gone(listed, |_, _| {}), None, "{listed:?}");
    }
    for (held, end) in [
        (("GPU-3", None), "GPU-3, which the driver does not list"),
        (
            ("GPU-3", Some("MIG-1")),
            "MIG-1, which the driver does not list",
        ),
        (
            ("GPU-2", Some("MIG-2")),
            "MIG-2, which the driver does not list",
        ),
        (
            ("GPU-1", Some("MIG-1")),
            "MIG-1, which the driver does not list",
        ),
        (("GPU-2", None), "GPU-2, which is in MIG mode now"),
    ] {
        assert_eq!(gone(held, |_, _| {}), evidence(end));
    }
    let passed_through = gone(("GPU-1", None), |it, _| {
        it.gpus[0].uuid = Fact::Absent;
        it.gpus[0].pci_driver = Fact::Known("vfio-pci".to_owned());
    });
    let end = "GPU-1, which the driver does not list";
    assert_eq!(passed_through, evidence(end));
}

// req: DOCTOR-17
#[test]
fn a_device_of_a_claim_that_may_be_there_is_not_reported() {
    fn failed<T>() -> Fact<T> {
        Fact::Failed(Failure::new("nvml", "returned 15"))
    }
    type Change = fn(&mut Inventory, &mut ClaimFacts);
    let cases: [(&str, Change); 9] = [
        ("NVML was not called", |it, _| {
            it.driver.gpu_count = Fact::Absent;
        }),
        ("NVML fails", |it, _| it.driver.gpu_count = failed()),
        ("its GPU may be another one", |it, _| {
            it.gpus[1].uuid = failed();
        }),
        ("NVML does not enumerate its GPU", |it, _| {
            it.gpus[1].index = Fact::Absent;
        }),
        ("the MIG mode is unknown", |it, _| it.gpus[1].mig = failed()),
        ("a MIG device is unknown", |it, _| {
            let mig = MigFacts {
                enabled: true,
                devices: vec![failed()],
                ..MigFacts::default()
            };
            it.gpus[1].mig = Fact::Known(mig);
        }),
        ("rebooted", |_, facts| {
            facts.boot_id = Some("later".to_owned());
        }),
        ("kubelet does not have the claim", |_, facts| {
            facts.kubelet = KubeletStateFile::Read(KubeletState::default());
        }),
        ("it is no GPU, but a vfio device", |_, facts| {
            let CheckpointFile::Read(checkpoint) = &mut facts.checkpoint else {
                panic!("no checkpoint");
            };
            checkpoint.records.get_mut("1").unwrap().held.clear();
        }),
    ];
    for (case, change) in cases {
        assert_eq!(gone(("GPU-2", Some("MIG-2")), change), None, "{case}");
    }
}

/// The facts with a journal of claim 3, which has no record.
fn with_change() -> ClaimFacts {
    let change = GpuChange {
        name: "n/3".to_owned(),
        boot_id: "boot".to_owned(),
        gpus: vec!["GPU-1".to_owned(), "GPU-2".to_owned()],
    };
    ClaimFacts {
        gpu_changes: BTreeMap::from([("3".to_owned(), Ok(change))]),
        ..gpu_facts()
    }
}

// req: DOCTOR-18
#[test]
fn a_change_of_gpus_without_its_claim_is_reported_with_both() {
    let findings = report(&with_change()).findings;
    let [found] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    assert_eq!(
        (found.id, found.severity),
        ("gpu-change-left", Severity::Warning)
    );
    let plugin = "/var/lib/kubelet/plugins/gpu.nvidia.com";
    assert_eq!(found.subject, format!("{plugin}/effects/3.json"));
    let evidence = format!(
        "claim 3 (n/3) has no record in {plugin}/checkpoint.json, but the time slice that it has set is not undone on GPU-1, GPU-2"
    );
    assert_eq!(found.evidence, evidence);
    assert!(!found.quotes);

    let mut damaged = with_change();
    damaged
        .gpu_changes
        .insert("3".to_owned(), Err("EOF".to_owned()));
    let findings = report(&damaged).findings;
    assert_eq!(findings[0].id, "gpu-change-left");
    assert!(findings[0].evidence.ends_with(": EOF") && findings[0].quotes);
}

// req: DOCTOR-18
#[test]
fn a_change_of_gpus_is_left_only_if_its_claim_has_surely_ended() {
    fn checkpoint(facts: &mut ClaimFacts) -> &mut CheckpointFacts {
        match &mut facts.checkpoint {
            CheckpointFile::Read(checkpoint) => checkpoint,
            _ => panic!("no checkpoint"),
        }
    }
    fn add_record(facts: &mut ClaimFacts, state: &'static str) {
        let unfinished = RecordFacts {
            state,
            is_completed: false,
            channels: vec![],
            ..record("3")
        };
        let records = &mut checkpoint(facts).records;
        records.insert("3".to_owned(), unfinished);
    }
    type Change = fn(&mut ClaimFacts);
    let cases: [(&str, bool, Change); 10] = [
        ("the host's boot is unknown", true, |it| it.boot_id = None),
        ("aborted", true, |it| add_record(it, "PrepareAborted")),
        ("started", false, |it| add_record(it, "PrepareStarted")),
        ("rebooted", false, |it| {
            it.boot_id = Some("later".to_owned());
        }),
        ("kubelet has the claim", false, |it| {
            let KubeletStateFile::Read(state) = &mut it.kubelet else {
                panic!("no state");
            };
            let claim = state.claims["1"].clone();
            state.claims.insert("3".to_owned(), claim);
        }),
        ("kubelet's claims are unknown", false, |it| {
            it.kubelet = KubeletStateFile::Damaged("torn".to_owned());
        }),
        ("records were lost", false, |it| {
            it.set_aside = vec!["checkpoint.json.damaged-x".to_owned()];
        }),
        ("the checkpoint is damaged", false, |it| {
            checkpoint(it).damage = Some(Unusable {
                reason: "it is empty".to_owned(),
                hint: "nothing".to_owned(),
            });
        }),
        ("no checkpoint", false, |it| {
            it.checkpoint = CheckpointFile::Absent;
        }),
        ("no journal", false, |it| it.gpu_changes.clear()),
    ];
    for (case, is_left, change) in cases {
        let mut facts = with_change();
        change(&mut facts);
        let found = ids(&facts).contains(&"gpu-change-left");
        assert_eq!(found, is_left, "{case}");
    }
}

// req: DOCTOR-19
#[test]
fn a_device_plugin_beside_the_gpu_plugin_is_a_warning() {
    let socket = "/var/lib/kubelet/device-plugins/nvidia-gpu.sock";
    let mut beside = gpu_facts();
    beside.device_plugin_sockets = vec![socket.to_owned(), "another".to_owned()];
    let findings = report(&beside).findings;
    let [found] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    assert_eq!(
        (found.id, found.severity),
        ("device-plugin-beside-dra", Severity::Warning)
    );
    assert_eq!(found.subject, socket);
    assert!(found.evidence.contains("and 1 more"), "{}", found.evidence);

    // Only CDI specs are left of the plugin.
    beside.root.has_plugin = Some(false);
    assert!(!ids(&beside).contains(&"device-plugin-beside-dra"));
}
