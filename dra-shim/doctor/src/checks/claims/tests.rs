//! Tests with hand-made facts about claims.

use std::collections::BTreeSet;
use std::slice;

use compute_domain_node::SharedMarker;

use crate::dra_driver::DraDriver;
use crate::facts::claims::ClaimSpecFiles;
use crate::facts::claims::checkpoint_file::SharedDevice;
use crate::facts::claims::checkpoint_file::{HeldChannel, RecordFacts, Unusable};
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
    check(drivers, &SpecFacts::default(), &Invocation::default())
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
    let report = check(
        slice::from_ref(&facts),
        &SpecFacts::default(),
        &Invocation::default(),
    );
    let findings = report.findings.into_iter();
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
