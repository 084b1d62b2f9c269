//! Which claim gets which hardware, and what its record and spec contain.

use dra_checkpoint::{Damage, Store};
use durable_file::Dir as _;
use gpu_inventory::Fact;
use node_claims::AllocatedClaim;

use super::*;
use crate::test_objects::{
    Disks, at, mk_claim, mk_host, mk_host_of, mk_inventory, mk_mig_inventory, mk_prepare,
    mk_shares, mk_status, mk_status_with, prepare, prepare_on, spec_file,
};

fn number_of(node: &NodeClaims, device_type: &str) -> usize {
    let counts = prepared(&node.view());
    let count = counts.iter().find(|(it, _)| *it == device_type);
    count.unwrap().1
}

// req: GPU-31, GPU-33
#[test]
fn a_claim_with_two_gpus_gets_a_spec_with_both_and_an_answer_for_each_request() {
    let disks = Disks::default();
    let node = disks.start();
    let devices = prepare(&node, "a", &mk_status(&["gpu-3", "gpu-1"])).unwrap();
    let answers: Vec<_> = devices
        .iter()
        .map(|device| {
            let ids = device.cdi_device_ids.clone().unwrap();
            (device.device_name.as_str(), ids.join(","))
        })
        .collect();
    let id = |name: &str| format!("k8s.gpu.nvidia.com/claim=a-{name}");
    assert_eq!(
        answers,
        [("gpu-3", id("gpu-3")), ("gpu-1", id("gpu-1"))],
        "in the order of the allocation"
    );
    let spec = disks.spec_of("a").unwrap();
    for text in [
        r#""path":"/dev/nvidia1""#,
        r#""path":"/dev/nvidia3""#,
        r#""path":"/dev/nvidiactl""#,
        r#""major":195"#,
    ] {
        assert!(spec.contains(text), "{text} in {spec}");
    }
    assert!(!spec.contains("/dev/nvidia0"));
    assert_eq!(number_of(&node, "gpu"), 2);
    let again = prepare(&node, "a", &mk_status(&["gpu-3", "gpu-1"])).unwrap();
    assert_eq!(again.len(), 2);
}

// req: GPU-33
#[test]
fn a_device_that_a_claim_has_twice_is_once_in_its_spec() {
    let disks = Disks::default();
    let node = disks.start();
    let devices = prepare(&node, "a", &mk_status(&["gpu-1", "gpu-1"])).unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!(devices[0].cdi_device_ids, devices[1].cdi_device_ids);
    let spec = disks.spec_of("a").unwrap();
    assert_eq!(spec.matches(r#""name":"a-gpu-1""#).count(), 1, "{spec}");
}

// req: GPU-32
#[test]
fn a_gpu_is_held_by_one_claim_until_it_is_unprepared() {
    let node = Disks::default().start();
    prepare(&node, "a", &mk_status(&["gpu-1"])).unwrap();
    prepare(&node, "other", &mk_status(&["gpu-2"])).unwrap();
    let error = prepare(&node, "b", &mk_status(&["gpu-0", "gpu-1"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "device gpu-1 is still in use by claim default/a-name:a"
    );
    assert_eq!(
        (error.code(), error.holder().unwrap().uid.as_str()),
        ("device-held", "a")
    );
    node.unprepare("a", at(1)).unwrap();
    prepare(&node, "b", &mk_status(&["gpu-0", "gpu-1"])).unwrap();
}

// req: GPU-32
#[test]
fn hardware_counts_and_not_its_name() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, "a", &mk_status(&["gpu-1"])).unwrap();
    // The driver was loaded again, and two GPUs have exchanged their minors.
    let mut renamed = mk_inventory();
    renamed.gpus[1].minor = Fact::Known(2);
    renamed.gpus[2].minor = Fact::Known(1);
    let renamed = mk_host_of(&renamed);
    let error = prepare_on(&node, "b", &mk_status(&["gpu-2"]), &renamed).unwrap_err();
    assert_eq!(
        error.to_string(),
        "device gpu-2 is still in use by claim default/a-name:a as gpu-1"
    );
    prepare_on(&node, "c", &mk_status(&["gpu-1"]), &renamed).unwrap();
    // The claim keeps its GPU, whose node has another number now.
    let report = node.repair_specs(&Some(renamed)).unwrap();
    assert_eq!(
        (report.written, report.failures),
        (vec!["a".to_owned()], vec![])
    );
    let spec = disks.spec_of("a").unwrap();
    assert!(spec.contains(r#""path":"/dev/nvidia2""#) && spec.contains(r#""name":"a-gpu-1""#));
}

// req: GPU-32
#[test]
fn a_gpu_whose_mig_device_is_held_is_not_given_whole() {
    let node = Disks::default().start();
    let mig = mk_mig_inventory();
    let names: Vec<_> = gpu_inventory::published::published(&mig).devices;
    let names: Vec<_> = names.iter().map(|it| it.name.as_str()).collect();
    let of_gpu_0: Vec<_> = names
        .iter()
        .filter(|it| it.starts_with("gpu-0-mig-"))
        .collect();
    let host = mk_host_of(&mig);
    prepare_on(&node, "a", &mk_status(&[of_gpu_0[0]]), &host).unwrap();
    prepare_on(&node, "b", &mk_status(&[of_gpu_0[1]]), &host).unwrap();
    assert_eq!(number_of(&node, "mig"), 2);
    // Somebody has switched MIG mode off, with containers running.
    let error = prepare(&node, "c", &mk_status(&["gpu-0"])).unwrap_err();
    assert_eq!(error.code(), "device-held");
    node.unprepare("a", at(1)).unwrap();
    node.unprepare("b", at(1)).unwrap();
    prepare(&node, "c", &mk_status(&["gpu-0"])).unwrap();
    let error = prepare_on(&node, "a", &mk_status(&[of_gpu_0[0]]), &host).unwrap_err();
    assert_eq!(error.code(), "device-held");
}

const LONG: &str = r#"{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}"#;
const DEFAULT: &str = r#"{"strategy":"TimeSlicing"}"#;

/// Prepares a claim with a share of each of these devices.
fn prepare_shares(
    node: &NodeClaims,
    uid: &str,
    devices: &[&str],
    sharing: &str,
) -> Result<Vec<KubeletDevice>, PrepareError> {
    let status = mk_shares(devices, sharing);
    node.prepare(mk_prepare(node, uid, &status, &mk_host(), at(0))?)
}

// req: GPU-53
#[test]
fn claims_share_a_gpu_if_all_have_a_share_of_it() {
    let disks = Disks::default();
    let node = disks.start();
    for uid in ["a", "b", "c"] {
        let devices = prepare_shares(&node, uid, &["gpu-1"], "null").unwrap();
        assert_eq!(devices[0].share_id.as_deref(), Some("share-0"));
    }
    // The default time slice is that of a GPU without settings.
    prepare_shares(&node, "d", &["gpu-1"], DEFAULT).unwrap();
    assert_eq!(number_of(&node, "gpu"), 4);
    assert!(disks.checkpoint_text().contains(r#""ShareID":"share-0""#));

    let error = prepare(&node, "whole", &mk_status(&["gpu-1"])).unwrap_err();
    assert_eq!(error.code(), "device-held");
    prepare(&node, "whole", &mk_status(&["gpu-2"])).unwrap();
    let error = prepare_shares(&node, "e", &["gpu-1", "gpu-2"], "null").unwrap_err();
    assert_eq!(
        (error.code(), error.holder().unwrap().uid.as_str()),
        ("device-held", "whole")
    );
}

// req: GPU-53
#[test]
fn a_share_of_a_gpu_is_none_of_its_mig_devices() {
    let node = Disks::default().start();
    let mig = mk_mig_inventory();
    let published = gpu_inventory::published::published(&mig).devices;
    let name = published[0].name.as_str();
    assert!(name.starts_with("gpu-0-mig-"));
    let prepare_mig = |uid| {
        let shares = mk_shares(&[name], "null");
        node.prepare(mk_prepare(&node, uid, &shares, &mk_host_of(&mig), at(0))?)
    };
    prepare_mig("a").unwrap();
    prepare_mig("b").unwrap();
    // MIG mode was switched off meanwhile.
    let error = prepare_shares(&node, "c", &["gpu-0"], "null").unwrap_err();
    assert_eq!(error.code(), "device-held");
}

// req: GPU-53, GPU-54
#[test]
fn shares_with_other_settings_are_refused_with_the_holder_and_both_settings() {
    let node = Disks::default().start();
    prepare_shares(&node, "a", &["gpu-1"], LONG).unwrap();
    prepare_shares(&node, "b", &["gpu-1"], LONG).unwrap();
    let error = prepare_shares(&node, "c", &["gpu-1"], "null").unwrap_err();
    assert_eq!(
        error.to_string(),
        "device gpu-1 is shared with claim default/a-name:a, which has other settings: TimeSlicing with the interval Long; this claim has none"
    );
    assert_eq!(
        (
            error.code(),
            error.class(),
            error.holder().unwrap().uid.as_str()
        ),
        ("shared-config-conflict", dra_common::Class::Retry, "a")
    );
    for uid in ["a", "b"] {
        node.unprepare(uid, at(1)).unwrap();
    }
    prepare_shares(&node, "c", &["gpu-1"], "null").unwrap();
}

// req: GPU-54
#[test]
fn a_share_whose_recorded_config_cannot_be_read_is_one_with_other_settings() {
    let node = Disks::default().start();
    let unreadable = mk_shares(&["gpu-1"], r#"{"strategy":"Newer"}"#);
    let shares = mk_shares(&["gpu-1"], "null");
    let mut input = mk_prepare(&node, "a", &shares, &mk_host(), at(0)).unwrap();
    input.status = unreadable;
    node.prepare(input).unwrap();
    let error = prepare_shares(&node, "b", &["gpu-1"], "null").unwrap_err();
    assert_eq!(error.code(), "shared-config-conflict");
    assert!(
        error
            .to_string()
            .contains("unknown (unknown GPU sharing strategy: \"Newer\""),
        "{error}"
    );
}

// req: GPU-57
#[test]
fn claims_rebuilt_after_a_lost_checkpoint_keep_their_shares() {
    let disks = Disks::default();
    let node = disks.start();
    let status = mk_shares(&["gpu-1"], "null");
    for uid in ["a", "b"] {
        prepare_shares(&node, uid, &["gpu-1"], "null").unwrap();
    }
    disks
        .checkpoint
        .replace("checkpoint.json", b"torn", 0o600)
        .unwrap();
    let (node, _) = disks.try_start("boot-1", Some(&mk_host())).unwrap();
    let allocated = ["a", "b"].map(|uid| AllocatedClaim {
        claim: mk_claim(uid),
        status: status.clone(),
    });
    let rebuilt = node.rebuild(allocated.to_vec(), &Some(mk_host())).unwrap();
    assert_eq!(rebuilt.restored.len(), 2);
    assert_eq!(
        disks
            .checkpoint_text()
            .matches(r#""ShareID":"share-0""#)
            .count(),
        4,
        "v1 and v2"
    );
    prepare_shares(&node, "c", &["gpu-1"], "null").unwrap();
    let error = prepare(&node, "whole", &mk_status(&["gpu-1"])).unwrap_err();
    assert_eq!(error.code(), "device-held");
}

// req: GPU-33
#[test]
fn a_mig_device_has_its_gpus_node_and_its_two_capabilities_and_no_other_instances() {
    let disks = Disks::default();
    let node = disks.start();
    let mig = mk_mig_inventory();
    let devices = gpu_inventory::published::published(&mig).devices;
    let device = devices.iter().find(|it| it.name.contains("-mig-")).unwrap();
    prepare_on(&node, "a", &mk_status(&[&device.name]), &mk_host_of(&mig)).unwrap();
    let spec = disks.spec_of("a").unwrap();
    assert_eq!(
        spec.matches("/dev/nvidia-caps/nvidia-cap").count(),
        2,
        "{spec}"
    );
    let text = disks.checkpoint_text();
    assert!(
        text.contains(r#"{"gpu":null,"mig":{"concrete":{"parentMinor":"#),
        "{text}"
    );
}

// req: GPU-34
#[test]
fn admin_access_conflicts_with_no_claim() {
    let node = Disks::default().start();
    let (admin, own) = (mk_status_with(&["gpu-1"], true), mk_status(&["gpu-1"]));
    prepare(&node, "admin", &admin).unwrap();
    prepare(&node, "owner", &own).unwrap();
    prepare(&node, "admin-2", &admin).unwrap();
    let error = prepare(&node, "second", &own).unwrap_err();
    assert_eq!(error.holder().unwrap().uid, "owner");
}

// req: GPU-30
#[test]
fn the_record_is_the_go_drivers() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, "a", &mk_status(&["gpu-1"])).unwrap();
    let record = r#""preparedDevices":[{"devices":[{"gpu":{"info":{"uuid":"GPU-00000000-0000-4000-8000-000000000001"},"device":{"Requests":["request-0"],"PoolName":"node-a","DeviceName":"gpu-1","CDIDeviceIDs":["k8s.gpu.nvidia.com/claim=a-gpu-1"]}},"mig":null}],"configState":{}}]"#;
    let text = disks.checkpoint_text();
    assert!(text.contains(record), "{text}");
}

// req: GPU-30
#[test]
fn an_interrupted_prepare_leaves_no_state_that_the_go_driver_does_not_know() {
    let disks = Disks::default();
    let node = disks.start();
    let status = mk_status(&["gpu-1"]);
    let begun = mk_prepare(&node, "a", &status, &mk_host(), at(0)).unwrap();
    node.begin(begun).unwrap();
    node.unprepare("a", at(1)).unwrap();
    let text = disks.checkpoint_text();
    assert!(
        !text.contains("Aborted") && !text.contains("abortedAt"),
        "{text}"
    );
    let late = mk_prepare(&node, "a", &status, &mk_host(), at(2)).unwrap();
    assert_eq!(
        node.prepare(late).unwrap_err().code(),
        "aborted",
        "the fence holds"
    );
    let again = mk_prepare(&node, "a", &status, &mk_host(), at(100)).unwrap();
    node.prepare(again).unwrap();
}

#[test]
fn claims_that_cannot_be_prepared_name_the_reason() {
    let node = Disks::default().start();
    let refused = |devices: &[&str]| prepare(&node, "a", &mk_status(devices)).unwrap_err();
    assert_eq!(refused(&[]).code(), "no-gpu");
    let missing = refused(&["gpu-9"]);
    assert_eq!(
        (missing.code(), missing.class()),
        ("gpu-missing", dra_common::Class::Retry)
    );
    let mut elsewhere = mk_status(&["gpu-1"]).to_json();
    elsewhere = elsewhere.replace("node-a", "node-b");
    let elsewhere = ClaimStatus::from_json(&elsewhere).unwrap();
    assert_eq!(
        prepare(&node, "a", &elsewhere).unwrap_err().code(),
        "foreign-device"
    );
    let mut no_module = mk_inventory();
    no_module.host.majors = Fact::Known(std::collections::BTreeMap::new());
    let error = prepare_on(&node, "a", &mk_status(&["gpu-1"]), &mk_host_of(&no_module));
    assert_eq!(error.unwrap_err().code(), "gpu-not-usable");
    assert_eq!(node.recorded_claims(), [], "nothing is written");
}

// req: GPU-35
#[test]
fn while_the_gpus_are_not_known_specs_stay_and_a_lost_record_waits() {
    let disks = Disks::default();
    let node = disks.start();
    let status = mk_status(&["gpu-1"]);
    prepare(&node, "a", &status).unwrap();
    let spec = disks.spec_of("a").unwrap();
    assert!(node.repair_specs(&None).unwrap().failures.is_empty());
    assert_eq!(disks.spec_of("a").unwrap(), spec);
    disks
        .checkpoint
        .replace("checkpoint.json", b"torn", 0o600)
        .unwrap();
    let (node, _) = disks.try_start("boot-1", None).unwrap();
    let allocated = || {
        vec![AllocatedClaim {
            claim: mk_claim("a"),
            status: status.clone(),
        }]
    };
    let waits = node.rebuild(allocated(), &None).unwrap_err();
    assert!(
        waits.to_string().contains("claim default/a-name:a"),
        "{waits}"
    );
    assert_eq!(
        disks.spec_of("a").unwrap(),
        spec,
        "its container may be running"
    );
    let rebuilt = node.rebuild(allocated(), &Some(mk_host())).unwrap();
    assert_eq!(rebuilt.restored, [mk_claim("a")]);
    let error = prepare(&node, "b", &status).unwrap_err();
    assert_eq!(error.code(), "device-held");
}

// req: GPU-35
#[test]
fn a_spec_of_the_go_driver_that_this_one_cannot_write_stays() {
    let disks = Disks::default();
    let status = mk_status(&["gpu-1"]);
    // As the Go driver has written it for a claim with MPS.
    let record: GpuGroup = serde_json::from_str(
        r#"{"devices": [{"gpu": {"info": {"uuid": "GPU-00000000-0000-4000-8000-000000000001"},
            "device": {"Requests": ["request-0"], "PoolName": "node-a", "DeviceName": "gpu-1",
                "CDIDeviceIDs": ["k8s.gpu.nvidia.com/claim=a-gpu-1"]}}, "mig": null}],
            "configState": {"mpsControlDaemonID": "a-0"}}"#,
    )
    .unwrap();
    let boot = BootId::new("boot-1").unwrap();
    let (go, _) = Store::open(Arc::new(disks.checkpoint.clone()), boot).unwrap();
    let of_claim = status.clone();
    go.commit(move |claims| {
        claims.start(&mk_claim("a"), &of_claim, at(0).wall)?;
        claims.complete("a", &of_claim, vec![record])
    })
    .unwrap();
    let spec = b"of the Go driver";
    disks.cdi.replace(&spec_file("a"), spec, 0o644).unwrap();

    let (node, report) = disks.try_start("boot-1", Some(&mk_host())).unwrap();
    assert_eq!((report.damage, report.failures), (Damage::None, vec![]));
    assert!(!node.lacks_specs().unwrap());
    prepare(&node, "a", &status).unwrap();
    assert_eq!(disks.spec_of("a").unwrap().as_bytes(), spec);
    let error = prepare(&node, "b", &status).unwrap_err();
    assert_eq!(error.code(), "device-held");
    node.unprepare("a", at(1)).unwrap();
    assert_eq!(disks.spec_of("a"), None);
}
