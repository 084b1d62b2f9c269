//! Prepare and Unprepare over simulated directories.

use durable_file::Dir as _;
use nvml_clique::Fabric;

use super::*;
use crate::Class;
use crate::test_objects::{
    DOMAIN, Disks, at, at_clocks, begin, end, mk_claim, mk_hardware, mk_hardware_with,
    mk_hardware_without_clique, mk_input, mk_status, prepare, prepare_in, prepare_input,
    write_spec,
};

// req: KUBELET-32
#[test]
fn a_prepared_claim_has_its_device_its_cdi_file_and_the_same_answer_every_time() {
    let disks = Disks::default();
    let node = disks.start();
    let claim = mk_claim("claim-1");
    for _ in 0..2 {
        let prepared = prepare(&node, &claim).unwrap();
        let [device] = prepared.devices.as_slice() else {
            panic!("one device")
        };
        assert_eq!(device.device_name, "channel-0");
        assert_eq!(
            device.cdi_device_ids.as_deref(),
            Some(&["k8s.compute-domain.nvidia.com/claim=claim-1-channel-0".to_owned()][..])
        );
        assert!(
            disks
                .spec_of(&claim)
                .unwrap()
                .contains(r#""major":235,"minor":0"#)
        );
    }
}

#[test]
fn the_channel_is_the_allocated_one() {
    let disks = Disks::default();
    let claim = mk_claim("claim-1");
    prepare_in(
        &disks.start(),
        &claim,
        &mk_status("pod-1", "channel-5"),
        &mk_hardware(),
        at(0),
    )
    .unwrap();
    assert!(
        disks
            .spec_of(&claim)
            .unwrap()
            .contains("/dev/nvidia-caps-imex-channels/channel5")
    );
}

// req: CD-21, KUBELET-33
#[test]
fn a_lost_cdi_file_is_rewritten_even_without_domain_and_fabric() {
    let disks = Disks::default();
    let node = disks.start();
    let claim = mk_claim("claim-1");
    prepare(&node, &claim).unwrap();
    disks
        .cdi
        .remove("k8s.compute-domain.nvidia.com-claim_claim-1.yaml")
        .unwrap();

    let dark = mk_hardware_with(300, Fabric::from_gpus(&[]));
    node.already_prepared(&claim, dark.major.as_ref().ok().copied())
        .unwrap()
        .unwrap();
    assert!(
        disks.spec_of(&claim).unwrap().contains(r#""major":300"#),
        "a reloaded driver's major"
    );
}

// req: NODE-6
#[test]
fn a_second_claim_waits_until_the_first_is_unprepared_and_its_error_names_the_holder() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, &mk_claim("claim-1")).unwrap();

    let error = prepare(&node, &mk_claim("claim-2")).unwrap_err();
    assert_eq!(error.class(), Class::Retry);
    assert_eq!(
        error.to_string(),
        "device channel-0 is still in use by claim default/claim-1-name:claim-1"
    );
    assert_eq!(disks.spec_of(&mk_claim("claim-2")), None);

    node.unprepare("claim-1", at(1)).unwrap();
    assert_eq!(disks.spec_of(&mk_claim("claim-1")), None);
    prepare(&node, &mk_claim("claim-2")).unwrap();
}

// req: NODE-17, NODE-18
#[test]
fn a_started_claim_blocks_no_other_claim_and_loses_when_it_ends_second() {
    let disks = Disks::default();
    let (first, second) = (disks.start(), disks.start()); // two processes
    let (slow, fast) = (mk_claim("slow"), mk_claim("fast"));
    let status = mk_status("pod-1", "channel-0");
    let request = ChannelRequest::from_status(&status).unwrap();
    let hardware = mk_hardware();
    let input = mk_input(&slow, &status, &request, &hardware);
    begin(&first, mk_input(&slow, &status, &request, &hardware)).unwrap();
    write_spec(&first, &input);

    prepare(&second, &fast).unwrap();

    let error = end(&first, &input).unwrap_err();
    assert!(
        matches!(error, PrepareError::InUse { holder, .. } if holder.to_string().ends_with(":fast"))
    );
    assert_eq!(disks.spec_of(&slow), None, "the loser removes its spec");
    assert!(disks.spec_of(&fast).is_some());
}

// req: NODE-21
#[test]
fn an_unprepare_in_another_process_aborts_a_prepare_in_progress() {
    let disks = Disks::default();
    let (old, new) = (disks.start(), disks.start());
    let claim = mk_claim("claim-1");
    let status = mk_status("pod-1", "channel-0");
    let request = ChannelRequest::from_status(&status).unwrap();
    let hardware = mk_hardware();
    let input = mk_input(&claim, &status, &request, &hardware);
    begin(&old, mk_input(&claim, &status, &request, &hardware)).unwrap();

    new.unprepare("claim-1", at(1)).unwrap();

    write_spec(&old, &input);
    assert!(matches!(
        end(&old, &input),
        Err(PrepareError::Claim(node_claims::PrepareError::Aborted))
    ));
    assert_eq!(disks.spec_of(&claim), None);
    // A late Prepare for the same status waits; a new pod's succeeds, and so does the same one later.
    assert!(matches!(
        prepare_in(&old, &claim, &status, &hardware, at(60)),
        Err(PrepareError::Claim(node_claims::PrepareError::Aborted))
    ));
    prepare_in(
        &old,
        &claim,
        &mk_status("pod-2", "channel-0"),
        &hardware,
        at(60),
    )
    .unwrap();
    new.unprepare("claim-1", at(61)).unwrap();
    prepare_in(&old, &claim, &status, &hardware, at(200)).unwrap();
}

// req: KUBELET-31
#[test]
fn unprepare_of_an_unknown_claim_succeeds() {
    let disks = Disks::default();
    let node = disks.start();
    for uid in ["claim-1", "", "../../etc/passwd"] {
        node.unprepare(uid, at(0)).unwrap();
    }
    assert_eq!(
        disks.checkpoint.read("checkpoint.json").unwrap(),
        None,
        "and writes nothing"
    );
}

#[test]
fn an_aborted_record_is_removed_when_its_fence_has_expired() {
    let disks = Disks::default();
    let node = disks.start();
    let (claim, status, hardware) = (
        mk_claim("claim-1"),
        mk_status("pod-1", "channel-0"),
        mk_hardware(),
    );
    let request = ChannelRequest::from_status(&status).unwrap();
    let input = mk_input(&claim, &status, &request, &hardware);
    begin(&node, input).unwrap();
    node.unprepare("claim-1", at(0)).unwrap();

    node.expire(at(89)).unwrap();
    assert_eq!(node.recorded_claims(), std::slice::from_ref(&claim));
    node.expire(at(90)).unwrap();
    assert!(node.recorded_claims().is_empty());
}

// req: NODE-7
#[test]
fn without_domain_or_clique_nothing_is_written() {
    let disks = Disks::default();
    let node = disks.start();
    let claim = mk_claim("claim-1");
    let status = mk_status("pod-1", "channel-0");
    let request = ChannelRequest::from_status(&status).unwrap();
    let prepare = |domain, hardware: &Hardware| {
        let input = PrepareInput {
            domain,
            ..mk_input(&claim, &status, &request, hardware)
        };
        prepare_input(&node, input).unwrap_err()
    };
    let error = prepare(DomainState::Missing, &mk_hardware());
    assert_eq!(error.class(), Class::Permanent);
    assert!(
        error.to_string().contains(DOMAIN) && error.to_string().contains("default"),
        "{error}"
    );
    let no_gpus = mk_hardware_with(235, Fabric::from_gpus(&[]));
    let error = prepare(DomainState::Unassigned, &no_gpus);
    assert_eq!(
        (error.code(), error.class()),
        ("fabric-not-ready", Class::Retry)
    );
    let error = prepare(DomainState::Unassigned, &mk_hardware_without_clique());
    assert_eq!(
        (error.code(), error.class()),
        ("no-clique", Class::Permanent)
    );
    assert!(error.to_string().contains("clique"), "{error}");
    assert_eq!(disks.checkpoint.read("checkpoint.json").unwrap(), None);
    assert!(disks.cdi.list().unwrap().is_empty());
}

/// Every check of the claim would fail; then one fault after the other is fixed.
// req: NODE-6, NODE-7
#[test]
fn the_first_failing_check_decides_and_nothing_is_written_before_all_have_passed() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, &mk_claim("holder")).unwrap();
    let recorded = disks.checkpoint.read("checkpoint.json").unwrap();
    let claim = mk_claim("claim-1");
    let (whole, dark) = (mk_hardware(), mk_hardware_without_clique());
    let reasons = [
        "config-unknown-field",
        "not-one-device",
        "allocation-mode",
        "device-held",
        "domain-not-found",
        "no-clique",
    ];
    for (right, reason) in reasons.iter().enumerate() {
        let mut text = mk_status("pod-1", "channel-0").to_json();
        let mut spoil = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            text = text.replacen(from, to, 1);
        };
        if right < 3 {
            spoil(r#""Single""#, r#""All""#);
        }
        if right < 2 {
            let result = r#"{"request":"channel","driver":"compute-domain.nvidia.com","pool":"node-a","device":"channel-0"}"#;
            spoil(result, &format!("{result},{result}"));
        }
        if right < 1 {
            spoil(r#""allocationMode""#, r#""unknown":1,"allocationMode""#);
        }
        if right == 4 {
            node.unprepare("holder", at(1)).unwrap();
        }
        let status = ClaimStatus::from_json(&text).unwrap();
        let prepared = ChannelRequest::from_status(&status).and_then(|request| {
            let input = PrepareInput {
                domain: if right < 5 {
                    DomainState::Missing
                } else {
                    DomainState::Unassigned
                },
                ..mk_input(&claim, &status, &request, &dark)
            };
            prepare_input(&node, input)
        });
        assert_eq!(prepared.unwrap_err().code(), *reason);
        assert_eq!(disks.spec_of(&claim), None, "{reason}");
        assert!(
            node.recorded_claims().iter().all(|it| *it != claim),
            "{reason}"
        );
        if right < 4 {
            let now = disks.checkpoint.read("checkpoint.json").unwrap();
            assert_eq!(now, recorded, "{reason}");
        }
    }
    let status = mk_status("pod-1", "channel-0");
    assert!(prepare_in(&node, &claim, &status, &whole, at(2)).is_ok());
}

/// Result of a Prepare for the aborted status at this moment.
fn retried(node: &NodeClaims, now: Moment) -> Result<(), PrepareError> {
    let (status, hardware) = (mk_status("pod-1", "channel-0"), mk_hardware());
    let request = ChannelRequest::from_status(&status)?;
    let claim = mk_claim("claim-1");
    let input = mk_input(&claim, &status, &request, &hardware);
    begin(node, PrepareInput { now, ..input })
}

// req: NODE-21
#[test]
fn setting_the_clock_neither_shortens_nor_extends_a_fence() {
    for jump in [-1_000_000, -80, 80, 1_000_000] {
        let disks = Disks::default();
        let node = disks.start();
        retried(&node, at(0)).unwrap();
        node.unprepare("claim-1", at(0)).unwrap();

        let early = at_clocks(89 + jump, 89);
        node.expire(early).unwrap();
        assert!(
            matches!(
                retried(&node, early),
                Err(PrepareError::Claim(node_claims::PrepareError::Aborted))
            ),
            "{jump}"
        );
        retried(&node, at_clocks(90 + jump, 90)).unwrap_or_else(|error| panic!("{jump}: {error}"));
    }
}

#[test]
fn a_fence_of_another_process_that_lies_in_the_future_holds_for_ninety_seconds() {
    let disks = Disks::default();
    let (old, new) = (disks.start(), disks.start());
    retried(&old, at(1_000_000)).unwrap();
    old.unprepare("claim-1", at(1_000_000)).unwrap();
    // The clock is set back before the other process sees the record.
    assert!(matches!(
        retried(&new, at_clocks(0, 0)),
        Err(PrepareError::Claim(node_claims::PrepareError::Aborted))
    ));
    assert!(matches!(
        retried(&new, at_clocks(89, 89)),
        Err(PrepareError::Claim(node_claims::PrepareError::Aborted))
    ));
    retried(&new, at_clocks(90, 90)).unwrap();
}
