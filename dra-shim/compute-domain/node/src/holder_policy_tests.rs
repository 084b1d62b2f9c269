use super::*;
use crate::test_objects::{
    DOMAIN, Disks, begin, end, mk_claim, mk_hardware, mk_input, mk_labelled_request, mk_status,
    prepare_input, write_spec,
};
use crate::{Class, NodeClaims, PrepareInput, Prepared, channel_of, records_share};
use dra_checkpoint::ClaimStatus;
use durable_file::Dir as _;

const MANY: Sharing = Sharing::Many { slots: 64 };
const OTHER: &str = "c0ffee00-0000-4000-8000-000000000002";

fn assigned(number: u32) -> DomainState {
    DomainState::Assigned(ChannelId::new(number).unwrap())
}

/// A claim of a domain, with a share of `device`.
fn mk_share(domain: &str, device: &str) -> ClaimStatus {
    let text = mk_status("pod", device).to_json().replace(DOMAIN, domain);
    let text = text.replace(r#""request":"channel""#, r#""request":"channel/share""#);
    let share = format!(r#""device":"{device}","shareID":"share-1""#);
    let text = text.replace(&format!(r#""device":"{device}""#), &share);
    ClaimStatus::from_json(&text).unwrap()
}

fn prepare(
    node: &NodeClaims,
    uid: &str,
    status: &ClaimStatus,
    domain: DomainState,
) -> Result<Prepared, PrepareError> {
    let (claim, hardware) = (mk_claim(uid), mk_hardware());
    let request = mk_labelled_request(status)?;
    let input = PrepareInput {
        domain,
        ..mk_input(&claim, status, &request, &hardware)
    };
    prepare_input(node, input)
}

/// Result of a second claim beside a first one: both of `channel-0`, each with its domain and the
/// domain's state.
fn second((isolation, sharing): Setting, first: DomainCase, second: DomainCase) -> &'static str {
    let node = Disks::default()
        .with_holder_policy(isolation, sharing)
        .start();
    prepare(&node, "first", &mk_share(first.0, "channel-0"), first.1).unwrap();
    match prepare(&node, "second", &mk_share(second.0, "channel-0"), second.1) {
        Ok(_) => "prepared",
        Err(error) => error.code(),
    }
}

type Setting = (Isolation, Sharing);

/// A claim's domain and its state.
type DomainCase = (&'static str, DomainState);

const NONE_ONE: Setting = (Isolation::None, Sharing::One);
const NONE_MANY: Setting = (Isolation::None, MANY);
const CHANNEL_ONE: Setting = (Isolation::Channel, Sharing::One);
const CHANNEL_MANY: Setting = (Isolation::Channel, MANY);

// req: CHANNEL-3
#[rustfmt::skip]
#[test]
fn the_table_of_which_claims_may_hold_a_channel() {
    let none = DomainState::Unassigned;
    let not_confirmed = DomainState::NotConfirmed(ChannelId::new(1).unwrap());
    let ours = |state| (DOMAIN, state);
    let theirs = |state| (OTHER, state);
    let table: [(Setting, DomainCase, DomainCase, &str); 16] = [
        // Devices that are not shared have one holder.
        (NONE_ONE, ours(none), ours(none), "device-held"),
        (NONE_ONE, ours(none), theirs(none), "device-held"),
        (CHANNEL_ONE, ours(assigned(1)), ours(assigned(1)), "device-held"),
        (CHANNEL_ONE, ours(assigned(1)), theirs(assigned(2)), "device-held"),
        // Without isolation, all domains share channel 0.
        (NONE_MANY, ours(none), ours(none), "prepared"),
        (NONE_MANY, ours(none), theirs(none), "prepared"),
        // With isolation, each channel belongs to one domain, even if the API server has it twice.
        (CHANNEL_MANY, ours(assigned(1)), ours(assigned(1)), "prepared"),
        (CHANNEL_MANY, ours(assigned(1)), theirs(assigned(2)), "prepared"),
        (CHANNEL_MANY, ours(assigned(1)), theirs(assigned(1)), "channel-held"),
        (CHANNEL_MANY, ours(assigned(0)), theirs(assigned(0)), "channel-held"),
        (CHANNEL_MANY, ours(assigned(0)), theirs(assigned(7)), "prepared"),
        // A channel assigned under isolation stays exclusive.
        (NONE_MANY, ours(assigned(1)), theirs(assigned(1)), "channel-held"),
        (NONE_MANY, ours(assigned(1)), theirs(none), "prepared"),
        // A domain without a channel waits for one.
        (CHANNEL_MANY, ours(assigned(1)), theirs(none), "no-channel-yet"),
        (CHANNEL_MANY, ours(assigned(1)), theirs(DomainState::Missing), "domain-not-found"),
        (CHANNEL_MANY, ours(assigned(1)), theirs(not_confirmed), "channel-not-confirmed"),
    ];
    for (setting, first, other, result) in table {
        assert_eq!(second(setting, first, other), result, "{setting:?} {first:?} {other:?}");
    }
}

#[test]
fn a_claim_opens_the_channel_of_its_domain_through_the_device_of_the_node() {
    let disks = Disks::default().with_holder_policy(Isolation::Channel, MANY);
    let node = disks.start();
    let prepared = prepare(&node, "c", &mk_share(DOMAIN, "channel-0"), assigned(2047)).unwrap();
    let [device] = prepared.devices.as_slice() else {
        panic!("{prepared:?}")
    };
    assert_eq!(device.device_name, "channel-0");
    assert_eq!(
        device.requests.as_deref(),
        Some(&["channel".to_owned()][..])
    );
    assert_eq!(device.share_id.as_deref(), Some("share-1"));
    let id = "k8s.compute-domain.nvidia.com/claim=c-channel-2047".to_owned();
    assert_eq!(device.cdi_device_ids.as_deref(), Some(&[id][..]));
    let spec = disks.spec_of(&mk_claim("c")).unwrap();
    assert!(
        spec.contains("/dev/nvidia-caps-imex-channels/channel2047"),
        "{spec}"
    );
    assert!(!spec.contains("channels/channel0"), "{spec}");
    let checkpoint = durable_file::Dir::read(&disks.checkpoint, "checkpoint.json").unwrap();
    let checkpoint = String::from_utf8(checkpoint.unwrap()).unwrap();
    for part in [
        r#""info":{"id":2047}"#,
        r#""DeviceName":"channel-0""#,
        r#""ShareID":"share-1""#,
    ] {
        assert!(checkpoint.contains(part), "{part} in {checkpoint}");
    }

    // A rewritten spec has the same channel, regardless of the domain.
    disks.set_spec_of(&mk_claim("c"), None);
    node.repair_specs(&mk_hardware().major.ok()).unwrap();
    assert_eq!(disks.spec_of(&mk_claim("c")), Some(spec));
}

#[test]
fn a_device_that_is_itself_a_channel_belongs_to_its_claim() {
    let node = Disks::default()
        .with_holder_policy(Isolation::Channel, MANY)
        .start();
    prepare(
        &node,
        "group",
        &mk_share(DOMAIN, "channel-5"),
        assigned(200),
    )
    .unwrap();
    let other = prepare(
        &node,
        "other",
        &mk_share(DOMAIN, "channel-5"),
        assigned(200),
    );
    assert_eq!(other.unwrap_err().code(), "channel-held");
    let domain = prepare(&node, "domain", &mk_share(OTHER, "channel-0"), assigned(5));
    assert_eq!(domain.unwrap_err().code(), "channel-held");
    prepare(&node, "own", &mk_share(DOMAIN, "channel-0"), assigned(200)).unwrap();
}

// req: CHANNEL-14
#[test]
fn of_two_domains_with_the_same_channel_the_second_to_complete_loses_and_leaves_no_spec() {
    let disks = Disks::default().with_holder_policy(Isolation::Channel, MANY);
    let node = disks.start();
    let hardware = mk_hardware();
    let (first, second) = (mk_claim("first"), mk_claim("second"));
    let (ours, theirs) = (mk_share(DOMAIN, "channel-0"), mk_share(OTHER, "channel-0"));
    let (our_request, their_request) = (
        mk_labelled_request(&ours).unwrap(),
        mk_labelled_request(&theirs).unwrap(),
    );
    let input = |domain, other| PrepareInput { domain, ..other };
    let inputs = [
        input(
            assigned(3),
            mk_input(&first, &ours, &our_request, &hardware),
        ),
        input(
            assigned(3),
            mk_input(&second, &theirs, &their_request, &hardware),
        ),
    ];
    for it in &inputs {
        begin(&node, PrepareInput { ..*it }).unwrap();
        write_spec(&node, it);
    }
    end(&node, &inputs[0]).unwrap();
    let error = end(&node, &inputs[1]).unwrap_err();
    assert_eq!(error.code(), "channel-held");
    assert_eq!(error.holder().unwrap().uid, "first");
    assert_eq!(error.class(), Class::Retry);
    assert!(disks.spec_of(&first).is_some());
    assert_eq!(disks.spec_of(&second), None);
}

// req: CHANNEL-17
#[test]
fn a_channel_that_the_driver_of_the_node_does_not_have_is_refused_by_name() {
    let node = Disks::default()
        .with_holder_policy(Isolation::Channel, MANY)
        .start();
    let (claim, status) = (mk_claim("c"), mk_share(DOMAIN, "channel-0"));
    let request = mk_labelled_request(&status).unwrap();
    for (count, refused) in [(Some(16), true), (Some(17), false), (None, false)] {
        let mut hardware = mk_hardware();
        hardware.channel_count = count;
        let input = PrepareInput {
            domain: assigned(16),
            ..mk_input(&claim, &status, &request, &hardware)
        };
        let answer = prepare_input(&node, input);
        match answer {
            Err(error) => {
                assert!(refused, "{count:?}: {error}");
                assert_eq!(error.code(), "channel-beyond-driver");
                let text = error.to_string();
                assert!(
                    text.contains("has 16 channels") && text.contains("channel 16"),
                    "{text}"
                );
            }
            Ok(_) => assert!(!refused, "{count:?}"),
        }
    }
}

/// A claim of a group: a channel of this clique's pool, for all pods of a group.
fn mk_group_claim(clique: &str, device: &str) -> ClaimStatus {
    let text = mk_status("gang", device).to_json();
    let pool = format!(r#""pool":"clique-{clique}""#);
    let text = text.replace(r#""pool":"node-a""#, &pool);
    let gang = r#""reservedFor":[{"apiGroup":"scheduling.k8s.io","resource":"podgroups""#;
    let text = text.replace(r#""reservedFor":[{"resource":"pods""#, gang);
    assert!(text.contains(&pool) && text.contains("podgroups"));
    ClaimStatus::from_json(&text).unwrap()
}

// req: CHANNEL-18
#[test]
fn a_claim_of_a_group_opens_its_own_channel_on_the_nodes_of_its_clique() {
    let own = mk_hardware().fabric.clique().unwrap().to_string();
    for isolation in [Isolation::None, Isolation::Channel] {
        let node = Disks::default().with_holder_policy(isolation, MANY).start();
        let (first, second) = (
            mk_group_claim(&own, "channel-3"),
            mk_group_claim(&own, "channel-4"),
        );
        let prepared = prepare(&node, "first", &first, assigned(200)).unwrap();
        assert_eq!(prepared.devices[0].device_name, "channel-3");
        assert_eq!(prepared.devices[0].pool_name, format!("clique-{own}"));
        prepare(&node, "second", &second, assigned(200)).unwrap();
        let channel = |uid| channel_of(&node.view(), uid).map(ChannelId::get);
        assert_eq!((channel("first"), channel("second")), (Some(3), Some(4)));
        // The channel belongs to the claim, not to the domain.
        let error = prepare(&node, "third", &first, assigned(200)).unwrap_err();
        assert_eq!(error.code(), "channel-held");
        let text = format!("{error}; {}", error.hint());
        let holder = "claim default/first-name:first, to which the channel is allocated;";
        assert!(
            text.contains(holder) && !text.contains("ComputeDomain"),
            "{text}"
        );
        let error = prepare(&node, "gone", &second, DomainState::Missing).unwrap_err();
        assert_eq!(error.code(), "domain-not-found");
        assert!(!error.hint().contains("template"), "{}", error.hint());
    }
}

// req: CHANNEL-15
#[test]
fn a_channel_of_a_slice_that_this_driver_did_not_make_is_refused() {
    let disks = Disks::default().with_holder_policy(Isolation::Channel, MANY);
    let own = mk_hardware().fabric.clique().unwrap().to_string();
    let clique = format!("clique-{own}");
    for (pool, device, code) in [
        ("evil", "channel-128", Some("foreign-device")),
        ("evil", "channel-1", Some("foreign-device")),
        ("clique-garbage", "channel-4", Some("foreign-device")),
        ("", "channel-4", Some("foreign-device")),
        (clique.as_str(), "channel-128", Some("foreign-device")),
        (&clique, "channel-2047", Some("foreign-device")),
        (&clique, "channel-127", None),
        (&clique, "channel-1", None),
        ("node-a", "channel-128", None),
        ("node-b", "channel-128", Some("foreign-device")),
    ] {
        let text = mk_status("pod", device).to_json();
        let text = text.replace("node-a", pool);
        let status = ClaimStatus::from_json(&text).unwrap();
        let (claim, node) = (mk_claim("c"), disks.start());
        let refused = prepare(&node, "c", &status, assigned(200)).err();
        let case = format!("{device} of {pool:?}");
        assert_eq!(refused.as_ref().map(PrepareError::code), code, "{case}");
        assert_eq!(disks.spec_of(&claim).is_none(), code.is_some(), "{case}");
        if let Some(error) = refused {
            let text = error.to_string();
            assert_eq!(error.class(), Class::Permanent);
            assert!(text.contains(device) && text.contains(pool), "{text}");
        }
        node.unprepare("c", crate::test_objects::at(1)).unwrap();
    }
}

#[test]
fn a_claim_of_a_group_is_refused_while_the_node_is_not_in_its_clique() {
    let node = Disks::default().start();
    let own = mk_hardware().fabric.clique().unwrap().to_string();
    let other = own.replace('7', "8");
    let error = prepare(
        &node,
        "c",
        &mk_group_claim(&other, "channel-3"),
        assigned(5),
    )
    .unwrap_err();
    assert_eq!(
        (error.code(), error.class()),
        ("other-clique", Class::Retry)
    );
    let text = error.to_string();
    assert!(text.contains(&own) && text.contains(&other), "{text}");
    // A prepared claim stays prepared when the node's clique changes.
    let (claim, status) = (mk_claim("c"), mk_group_claim(&own, "channel-3"));
    prepare(&node, "c", &status, assigned(5)).unwrap();
    let major = mk_hardware().major.ok();
    assert!(node.already_prepared(&claim, major).unwrap().is_some());
}

#[test]
fn a_share_is_found_in_any_record_and_unknown_after_damage() {
    let disks = Disks::default().with_holder_policy(Isolation::None, MANY);
    let node = disks.start();
    assert_eq!(records_share(&node.view()), Some(false));
    let whole = mk_status("pod", "channel-0");
    prepare(&node, "whole", &whole, DomainState::Unassigned).unwrap();
    assert_eq!(records_share(&node.view()), Some(false));

    let (claim, status, hardware) = (
        mk_claim("share"),
        mk_share(DOMAIN, "channel-0"),
        mk_hardware(),
    );
    let request = ChannelRequest::from_status(&status).unwrap();
    begin(&node, mk_input(&claim, &status, &request, &hardware)).unwrap();
    assert_eq!(records_share(&node.view()), Some(true));

    disks
        .checkpoint
        .replace("checkpoint.json", b"torn", 0o600)
        .unwrap();
    assert_eq!(records_share(&disks.start().view()), None);
}

// req: CHANNEL-1, CHANNEL-12
#[rustfmt::skip]
#[test]
fn the_table_of_which_channel_a_claim_opens() {
    let unassigned = DomainState::Unassigned;
    let not_confirmed = DomainState::NotConfirmed(ChannelId::new(7).unwrap());
    let any = [Isolation::None, Isolation::Channel];
    let table = [
        ("channel-0", DomainState::Missing, &any[..], Err("domain-not-found")),
        ("channel-5", DomainState::Missing, &any, Err("domain-not-found")),
        ("channel-0", not_confirmed, &any, Err("channel-not-confirmed")),
        ("channel-5", not_confirmed, &any, Err("channel-not-confirmed")),
        ("channel-5", unassigned, &any, Ok(5)),
        ("channel-5", assigned(7), &any, Ok(5)),
        ("channel-0", assigned(7), &any, Ok(7)),
        ("channel-0", unassigned, &[Isolation::None], Ok(0)),
        ("channel-0", unassigned, &[Isolation::Channel], Err("no-channel-yet")),
    ];
    for (device, domain, isolations, expected) in table {
        for isolation in isolations {
            let node = Disks::default().with_holder_policy(*isolation, MANY).start();
            let answer = prepare(&node, "c", &mk_share(DOMAIN, device), domain);
            let found = match &answer {
                Ok(_) => Ok(channel_of(&node.view(), "c").unwrap().get()),
                Err(error) => Err(error.code()),
            };
            assert_eq!(found, expected, "{device} {domain:?} {isolation:?}");
        }
    }
}

// req: CHANNEL-16
#[test]
fn only_a_claim_with_the_domains_label_is_prepared_with_the_domains_channel() {
    let missing = format!("lacks the label resource.nvidia.com/computeDomain={DOMAIN} (");
    let missing = Some(missing.as_str());
    let both = format!(
        "has the label resource.nvidia.com/computeDomain={OTHER}, but the domainID of its config is {DOMAIN}:"
    );
    let both = Some(both.as_str());
    for (device, domain, label, refused) in [
        ("channel-0", assigned(7), Some(DOMAIN), None),
        ("channel-0", assigned(7), Some(OTHER), both),
        ("channel-0", assigned(7), None, missing),
        // Channel 0 has no owner, and a group's channel belongs to its claim.
        ("channel-0", assigned(0), None, None),
        ("channel-0", DomainState::Unassigned, None, None),
        ("channel-5", assigned(7), None, None),
        // But a label keeps its domain's channel in use.
        ("channel-5", assigned(7), Some(DOMAIN), None),
        ("channel-5", assigned(7), Some(OTHER), both),
        ("channel-0", assigned(0), Some(OTHER), both),
        ("channel-0", DomainState::Unassigned, Some(OTHER), both),
    ] {
        let disks = Disks::default().with_holder_policy(Isolation::None, MANY);
        let (claim, status, hardware) = (mk_claim("c"), mk_share(DOMAIN, device), mk_hardware());
        let request = ChannelRequest::from_status(&status).unwrap();
        let request = request.with_label(label);
        let input = PrepareInput {
            domain,
            ..mk_input(&claim, &status, &request, &hardware)
        };
        let answer = prepare_input(&disks.start(), input);
        let case = format!("{device} {domain:?} {label:?}");
        assert_eq!(answer.is_err(), refused.is_some(), "{case}");
        assert_eq!(disks.spec_of(&claim).is_none(), refused.is_some(), "{case}");
        if let (Err(error), Some(found)) = (answer, refused) {
            let (code, class) = ("claim-not-labelled", Class::Permanent);
            assert_eq!((error.code(), error.class()), (code, class));
            let text = error.to_string();
            assert!(text.contains(found), "{text}");
        }
    }
}
