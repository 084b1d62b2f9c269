//! Recovery of a damaged checkpoint: no claim is prepared until specs and API
//! server have revealed the holders.

use std::sync::Arc;

use compute_domain_api::{Isolation, Sharing};
use dra_checkpoint::{BootId, Checkpoint, Damage, DamageReason};
use durable_file::{Dir as _, SimDir};
use imex_cdi::ChannelId;
use node_claims::{AllocatedClaim, StartReport};

use crate::test_objects::{
    Disks, EXCLUSIVE, at, mk_claim, mk_hardware, mk_input, mk_labelled_request, mk_status,
    prepare_input,
};
use crate::{
    ChannelRequest, DeviceGroup, DomainState, ImexChannels, NodeClaims, PrepareError, PrepareInput,
    channel_of, prepared_channels,
};

fn mk_allocated(uid: &str) -> AllocatedClaim {
    AllocatedClaim {
        claim: mk_claim(uid),
        status: mk_status("pod-1", "channel-0"),
    }
}

fn prepare(node: &NodeClaims, allocated: &AllocatedClaim) -> Result<(), PrepareError> {
    let request = ChannelRequest::from_status(&allocated.status)?;
    let hardware = mk_hardware();
    let input = mk_input(&allocated.claim, &allocated.status, &request, &hardware);
    prepare_input(node, input).map(drop)
}

fn start(checkpoint: &SimDir, cdi: &SimDir, boot: &str) -> (NodeClaims, StartReport) {
    let boot = BootId::new(boot).unwrap();
    let (checkpoint, cdi) = (Arc::new(checkpoint.clone()), Arc::new(cdi.clone()));
    let major = mk_hardware().major.ok();
    ImexChannels::new(EXCLUSIVE)
        .start(checkpoint, cdi, boot, major)
        .unwrap()
}

/// A node on which `holder` is prepared and whose checkpoint is then torn.
fn mk_damaged() -> (SimDir, SimDir) {
    let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
    prepare(
        &start(&checkpoint, &cdi, "boot-1").0,
        &mk_allocated("holder"),
    )
    .unwrap();
    checkpoint
        .replace("checkpoint.json", br#"{"checksum":10"#, 0o600)
        .unwrap();
    (checkpoint, cdi)
}

// req: CKPT-11
#[test]
fn until_rebuilt_nothing_is_prepared_and_no_file_is_removed() {
    let (checkpoint, cdi) = mk_damaged();
    let (node, report) = start(&checkpoint, &cdi, "boot-1");
    assert!(matches!(report.damage, Damage::Damaged { .. }));
    assert!(matches!(
        prepare(&node, &mk_allocated("other")),
        Err(PrepareError::Claim(
            node_claims::PrepareError::NeedsRecovery
        ))
    ));
    assert_eq!(cdi.list().unwrap().len(), 1);
}

// req: CKPT-14
#[test]
fn a_removed_checkpoint_is_rebuilt_like_a_damaged_one() {
    let (checkpoint, cdi) = mk_damaged();
    checkpoint.remove("checkpoint.json").unwrap();
    for _ in 0..2 {
        let (node, report) = start(&checkpoint, &cdi, "boot-1");
        let reason = DamageReason::Missing;
        assert!(
            matches!(report.damage, Damage::Damaged { reason: found, .. } if found == reason),
            "{report:?}"
        );
        let refused = prepare(&node, &mk_allocated("other"));
        assert!(matches!(
            refused,
            Err(PrepareError::Claim(
                node_claims::PrepareError::NeedsRecovery
            ))
        ));
        assert_eq!(cdi.list().unwrap().len(), 1);
    }
    let (node, _) = start(&checkpoint, &cdi, "boot-1");
    node.rebuild(vec![mk_allocated("holder")], &mk_hardware().major.ok())
        .unwrap();
    let refused = prepare(&node, &mk_allocated("other"));
    assert!(matches!(refused, Err(PrepareError::InUse { .. })));
    let (_, report) = start(&checkpoint, &cdi, "boot-1");
    assert_eq!(report.damage, Damage::None);
}

// req: CKPT-14
#[test]
fn the_spec_of_an_allocated_claim_that_this_driver_does_not_prepare_stays() {
    let (checkpoint, cdi) = mk_damaged();
    let (node, _) = start(&checkpoint, &cdi, "boot-1");
    let of_a_daemon = AllocatedClaim {
        claim: mk_claim("holder"),
        status: mk_status("pod-1", "daemon-0"),
    };
    node.rebuild(vec![of_a_daemon], &mk_hardware().major.ok())
        .unwrap();
    assert_eq!(cdi.list().unwrap().len(), 1);
    prepare(&node, &mk_allocated("other")).unwrap();

    checkpoint
        .replace("checkpoint.json", br#"{"checksum":10"#, 0o600)
        .unwrap();
    let (node, _) = start(&checkpoint, &cdi, "boot-1");
    node.rebuild(vec![mk_allocated("other")], &mk_hardware().major.ok())
        .unwrap();
    assert_eq!(cdi.list().unwrap().len(), 1, "it is not allocated any more");
}

// req: CKPT-14, NODE-22
#[test]
fn restoring_an_older_checkpoint_costs_no_claim_its_spec() {
    for while_it_runs in [false, true] {
        for is_allocated in [true, false] {
            let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
            let (mut node, _) = start(&checkpoint, &cdi, "boot-1");
            prepare(&node, &mk_allocated("first")).unwrap();
            node.unprepare("first", at(1)).unwrap();
            let backup = checkpoint.read("checkpoint.json").unwrap().unwrap();
            prepare(&node, &mk_allocated("holder")).unwrap();

            checkpoint
                .replace("checkpoint.json", &backup, 0o600)
                .unwrap();
            if while_it_runs {
                node.note_lost_claims().unwrap();
                assert_eq!(node.damage(), Damage::None, "not noticed yet");
                // The next change of any claim reads it.
                node.expire(at(2)).unwrap();
                node.note_lost_claims().unwrap();
            } else {
                (node, _) = start(&checkpoint, &cdi, "boot-1");
            }
            let reason = DamageReason::Missing;
            assert!(
                matches!(node.damage(), Damage::Damaged { reason: found, .. } if found == reason)
            );
            let refused = prepare(&node, &mk_allocated("other"));
            assert!(matches!(
                refused,
                Err(PrepareError::Claim(
                    node_claims::PrepareError::NeedsRecovery
                ))
            ));
            assert_eq!(cdi.list().unwrap().len(), 1);
            // Also for a process that starts now.
            let (other, _) = start(&checkpoint, &cdi, "boot-1");
            assert!(matches!(other.damage(), Damage::Damaged { .. }));

            let allocated = is_allocated.then(|| mk_allocated("holder"));
            let allocated = allocated.into_iter().collect();
            let report = node.rebuild(allocated, &mk_hardware().major.ok()).unwrap();
            assert_eq!(node.damage(), Damage::None);
            let (restored, removed) = (report.restored.len(), report.removed.len());
            assert_eq!(
                (restored, removed),
                (is_allocated.into(), (!is_allocated).into())
            );
            assert_eq!(prepared_channels(&node.view()), restored);
            let other = prepare(&node, &mk_allocated("other"));
            assert_eq!(other.is_ok(), !is_allocated, "{other:?}");
            node.note_lost_claims().unwrap();
            assert_eq!(node.damage(), Damage::None);
            node.unprepare("holder", at(3)).unwrap();
            prepare(&node, &mk_allocated("other")).unwrap();
        }
    }
}

/// Like a backup from the last boot.
// req: CKPT-14
#[test]
fn restoring_a_checkpoint_of_an_earlier_boot_costs_no_claim_its_spec() {
    let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
    drop(start(&checkpoint, &cdi, "boot-1"));
    prepare(
        &start(&checkpoint, &cdi, "boot-1").0,
        &mk_allocated("earlier"),
    )
    .unwrap();
    let backup = checkpoint.read("checkpoint.json").unwrap().unwrap();
    let (node, _) = start(&checkpoint, &cdi, "boot-2");
    prepare(&node, &mk_allocated("holder")).unwrap();
    checkpoint
        .replace("checkpoint.json", &backup, 0o600)
        .unwrap();
    let (node, report) = start(&checkpoint, &cdi, "boot-2");
    assert!(matches!(report.damage, Damage::Damaged { .. }));
    let lost: Vec<_> = node.lost_claims().unwrap().into_iter().collect();
    assert_eq!(lost, ["holder"]);
    node.rebuild(vec![mk_allocated("holder")], &mk_hardware().major.ok())
        .unwrap();
    assert!(channel_of(&node.view(), "holder").is_some());
}

#[test]
fn a_stray_spec_that_cannot_be_removed_is_damage_only_once() {
    let root = tempfile::tempdir().unwrap();
    let cdi = Arc::new(durable_file::OsDir::open(root.path()).unwrap());
    let stray = "k8s.compute-domain.nvidia.com-claim_dead.yaml";
    // Like an immutable file: it is listed, but cannot be removed.
    std::fs::create_dir_all(root.path().join(stray).join("full")).unwrap();
    let (checkpoint, boot) = (SimDir::new(), BootId::new("boot-1").unwrap());
    let major = mk_hardware().major.ok();
    let (node, report) = ImexChannels::new(EXCLUSIVE)
        .start(Arc::new(checkpoint.clone()), cdi, boot, major)
        .unwrap();
    assert!(matches!(report.damage, Damage::Damaged { .. }));
    let report = node.rebuild(Vec::new(), &major).unwrap();
    assert_eq!((report.removed.len(), report.failures.len()), (0, 1));
    node.note_lost_claims().unwrap();
    assert_eq!(node.damage(), Damage::None);
    prepare(&node, &mk_allocated("other")).unwrap();
    node.note_lost_claims().unwrap();
    assert_eq!(node.damage(), Damage::None);
}

// req: CKPT-13
#[test]
fn a_live_claim_with_a_spec_is_a_holder_and_a_spec_without_a_live_claim_is_removed() {
    let (checkpoint, cdi) = mk_damaged();
    cdi.replace(
        "k8s.compute-domain.nvidia.com-claim_dead.yaml",
        b"{}",
        0o644,
    )
    .unwrap();
    let (node, _) = start(&checkpoint, &cdi, "boot-1");

    let rebuilt = node
        .rebuild(
            vec![mk_allocated("holder"), mk_allocated("never-prepared-here")],
            &mk_hardware().major.ok(),
        )
        .unwrap();

    assert_eq!(
        rebuilt.removed,
        ["k8s.compute-domain.nvidia.com-claim_dead.yaml"]
    );
    assert!(matches!(
        prepare(&node, &mk_allocated("other")),
        Err(PrepareError::InUse { holder, .. }) if holder.to_string() == "default/holder-name:holder"
    ));
    // And the next process starts without damage.
    let (node, report) = start(&checkpoint, &cdi, "boot-1");
    assert_eq!(
        (report.damage, prepared_channels(&node.view())),
        (Damage::None, 1)
    );
}

/// The text with its last `from`, which is in V2, replaced.
fn in_v2(text: &str, from: &str, to: &str) -> String {
    let (head, tail) = text.rsplit_once(from).unwrap();
    [head, to, tail].concat()
}

/// Adds a claim with a newer driver's state, and updates V2's checksum.
fn with_unknown_state(text: &str) -> String {
    let claims = r#""preparedClaims":{"#;
    let newer = r#""a":{"checkpointState":"PreparePostponed","status":{}},"#;
    let text = in_v2(text, claims, &[claims, newer].concat());
    let damaged = Checkpoint::<DeviceGroup>::decode(text.as_bytes()).unwrap_err();
    let [mismatch] = damaged.mismatches[..] else {
        panic!("{damaged}")
    };
    let stored = mismatch.stored.unwrap().to_string();
    in_v2(&text, &stored, &mismatch.computed.to_string())
}

/// Holders that are still in the file but that the rebuild cannot find. Either the CDI spec is missing, so there is no
/// claim to look up in the API server. Or the claim is deleted from the API server while its pod still runs.
// req: CKPT-10, CKPT-12
#[test]
fn a_holder_that_a_damaged_checkpoint_still_names_is_kept_without_spec_and_api_server() {
    type Harm = fn(&str) -> String;
    let harms: [(&str, Harm, DamageReason); 8] = [
        (
            "a bit of V1",
            |text| text.replacen("pod-1", "pod-0", 1),
            DamageReason::V1Checksum,
        ),
        (
            "a bit of V2",
            |text| in_v2(text, "pod-1", "pod-0"),
            DamageReason::V2Checksum,
        ),
        (
            "a bracket of V1",
            |text| text.replacen(r#""v1":{"#, r#""v1":["#, 1),
            DamageReason::NotJson,
        ),
        (
            "cut in V2",
            |text| text[..text.len() - 40].to_owned(),
            DamageReason::NotJson,
        ),
        (
            "cut before V2",
            |text| text.split_once(r#","v2""#).unwrap().0.to_owned(),
            DamageReason::NotJson,
        ),
        (
            "a longer file's rest",
            |text| format!("{text}}}"),
            DamageReason::NotJson,
        ),
        (
            "V2's name",
            |text| in_v2(text, r#""v2":"#, r#""v0":"#),
            DamageReason::Layout,
        ),
        (
            "a newer driver's claim",
            with_unknown_state,
            DamageReason::UnknownState,
        ),
    ];
    for (name, harm, expected) in harms {
        for spec_is_gone in [true, false] {
            let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
            prepare(
                &start(&checkpoint, &cdi, "boot-1").0,
                &mk_allocated("holder"),
            )
            .unwrap();
            let text = checkpoint.read("checkpoint.json").unwrap().unwrap();
            let text = harm(&String::from_utf8(text).unwrap());
            checkpoint
                .replace("checkpoint.json", text.as_bytes(), 0o600)
                .unwrap();
            if spec_is_gone {
                for spec in cdi.list().unwrap() {
                    cdi.remove(&spec).unwrap();
                }
            }

            let (node, report) = start(&checkpoint, &cdi, "boot-1");
            assert!(
                matches!(report.damage, Damage::Damaged { reason, .. } if reason == expected),
                "{name}: {report:?}"
            );
            assert!(node.lost_claims().unwrap().is_empty(), "{name}");
            node.rebuild(Vec::new(), &mk_hardware().major.ok()).unwrap();

            let refused = prepare(&node, &mk_allocated("other"));
            assert!(
                matches!(&refused, Err(PrepareError::InUse { holder, .. }) if holder.uid == "holder"),
                "{name}: {refused:?}"
            );
            let specs = cdi.list().unwrap();
            assert_eq!(specs.len(), 1, "{name}: {specs:?}");
            node.unprepare("holder", at(1)).unwrap();
            prepare(&node, &mk_allocated("other")).unwrap();
        }
    }
}

#[test]
fn damage_found_after_a_reboot_has_no_holders() {
    let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
    prepare(
        &start(&checkpoint, &cdi, "boot-1").0,
        &mk_allocated("holder"),
    )
    .unwrap();
    let text = String::from_utf8(checkpoint.read("checkpoint.json").unwrap().unwrap()).unwrap();
    // Only the redundant V1 part is bad: records and boot id survive.
    let bad = text.replacen("\"checksum\":", "\"checksum\":1", 1);
    checkpoint
        .replace("checkpoint.json", bad.as_bytes(), 0o600)
        .unwrap();

    let (node, _) = start(&checkpoint, &cdi, "boot-2");
    assert!(node.lost_claims().unwrap().is_empty());
    node.rebuild(vec![mk_allocated("holder")], &mk_hardware().major.ok())
        .unwrap();
    assert_eq!(prepared_channels(&node.view()), 0);
    prepare(&node, &mk_allocated("other")).unwrap();
}

#[test]
fn damage_under_a_running_node_is_found_by_the_next_call_and_rebuilt_without_a_restart() {
    let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
    let (node, _) = start(&checkpoint, &cdi, "boot-1");
    prepare(&node, &mk_allocated("holder")).unwrap();
    checkpoint
        .replace("checkpoint.json", b"scribble", 0o600)
        .unwrap();

    node.expire(at(1)).unwrap();
    assert!(matches!(node.damage(), Damage::Damaged { .. }));
    assert!(matches!(
        prepare(&node, &mk_allocated("other")),
        Err(PrepareError::Claim(
            node_claims::PrepareError::NeedsRecovery
        ))
    ));

    node.rebuild(vec![mk_allocated("holder")], &mk_hardware().major.ok())
        .unwrap();
    assert_eq!(node.damage(), Damage::None);
    assert_eq!(prepared_channels(&node.view()), 1);
}

#[test]
fn only_a_claim_with_a_spec_and_without_a_record_can_have_been_lost() {
    let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
    let (node, _) = start(&checkpoint, &cdi, "boot-1");
    prepare(&node, &mk_allocated("holder")).unwrap();
    assert!(node.lost_claims().unwrap().is_empty());
    cdi.replace("nvidia.com-gpu.yaml", b"{}", 0o644).unwrap();
    checkpoint
        .replace("checkpoint.json", b"scribble", 0o600)
        .unwrap();
    let (node, _) = start(&checkpoint, &cdi, "boot-1");
    assert_eq!(
        node.lost_claims().unwrap().into_iter().collect::<Vec<_>>(),
        ["holder"]
    );
}

// req: CKPT-13
#[test]
fn a_rebuilt_record_opens_the_channel_of_its_spec_and_is_dropped_if_that_is_lost_too() {
    let many = Sharing::Many { slots: 64 };
    let spec_name = "k8s.compute-domain.nvidia.com-claim_holder.yaml";
    for (spec, channel) in [
        (None, Some(77)),
        // What the Go driver's library wrote.
        (Some("devices:\n- name: holder-channel-77\n"), Some(77)),
        // Cut off after the name, and in it.
        (
            Some(r#"{"devices":[{"name":"holder-channel-77","#),
            Some(77),
        ),
        (Some(r#"{"devices":[{"name":"holder-channel-7"#), None),
    ] {
        let disks = Disks::default().with_holder_policy(Isolation::Channel, many);
        let holder = mk_allocated("holder");
        let request = mk_labelled_request(&holder.status).unwrap();
        let hardware = mk_hardware();
        let input = PrepareInput {
            domain: DomainState::Assigned(ChannelId::new(77).unwrap()),
            ..mk_input(&holder.claim, &holder.status, &request, &hardware)
        };
        prepare_input(&disks.start(), input).unwrap();
        disks
            .checkpoint
            .replace("checkpoint.json", b"scribble", 0o600)
            .unwrap();
        if let Some(spec) = spec {
            disks
                .cdi
                .replace(spec_name, spec.as_bytes(), 0o644)
                .unwrap();
        }
        let node = disks.start();
        node.rebuild(vec![holder], &mk_hardware().major.ok())
            .unwrap();
        let rebuilt = channel_of(&node.view(), "holder").map(ChannelId::get);
        assert_eq!(rebuilt, channel, "{spec:?}");
        let spec_now = disks.spec_of(&mk_claim("holder"));
        let opens = |spec: &String| spec.contains("/dev/nvidia-caps-imex-channels/channel77");
        assert_eq!(
            spec_now.as_ref().is_some_and(opens),
            channel.is_some(),
            "{spec:?}"
        );
        assert_eq!(
            spec_now.is_some(),
            channel.is_some(),
            "{spec:?}: {spec_now:?}"
        );
    }
}
