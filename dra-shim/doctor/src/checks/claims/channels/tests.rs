//! Tests with hand-made facts about channels and owners.

use std::collections::BTreeSet;
use std::sync::Arc;

use imex_cdi::Spec;
use serde_json::json;

use crate::dra_driver::DraDriver;
use crate::facts::claims::checkpoint_file::SharedDevice;
use crate::facts::claims::checkpoint_file::{CheckpointFacts, CheckpointFile};
use crate::facts::claims::kubelet_root::KubeletRootFacts;
use crate::facts::claims::{ClaimSpecFiles, KubeletStateFile};
use crate::kubelet_state::{KubeletClaim, KubeletState};
use crate::node_report::{NodeReport, NodeState};

use super::*;

/// A claim of a domain, with its device and the channel that it opens.
type Claim<'a> = (&'a str, &'a str, u32, u32);

fn record((uid, domain, device, channel): Claim<'_>) -> (String, RecordFacts) {
    let owner = if device == 0 { domain } else { uid };
    let record = RecordFacts {
        has_share: false,
        name: Some(format!("n/{uid}")),
        state: "PrepareCompleted",
        is_completed: true,
        channels: vec![HeldChannel {
            channel,
            device: format!("channel-{device}"),
            domain: domain.to_owned(),
            owner: owner.to_owned(),
        }],
        gpus: BTreeSet::new(),
        held: vec![],
    };
    (uid.to_owned(), record)
}

/// A node with these claims, each with its spec in `/cdi`.
fn facts(claims: &[Claim<'_>]) -> ClaimFacts {
    let path = |uid: &str| (uid.to_owned(), format!("/cdi/{uid}"));
    ClaimFacts {
        root: KubeletRootFacts {
            path: "/kubelet".to_owned(),
            driver: DraDriver::ComputeDomain,
            exists: true,
            has_plugin: Some(true),
            other: None,
        },
        checkpoint: CheckpointFile::Read(CheckpointFacts {
            records: claims.iter().copied().map(record).collect(),
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
            paths: claims.iter().map(|(uid, ..)| path(uid)).collect(),
            is_incomplete: false,
        },
        kubelet: KubeletStateFile::Absent,
    }
}

fn node(channel: Option<i64>) -> NodeReport {
    NodeReport {
        path: "/dev/nvidia-caps-imex-channels/channel9".to_owned(),
        host_path: String::new(),
        declared: None,
        found: None,
        channel,
        state: NodeState::Absent,
        message: None,
        fix: None,
    }
}

/// The spec of the claim `u`.
fn specs(channels: impl IntoIterator<Item = Option<i64>>) -> SpecFacts {
    let spec = json!({
        "cdiVersion": "0.5.0",
        "kind": "k8s.compute-domain.nvidia.com/claim",
        "devices": [{"name": "u", "containerEdits": {"env": ["A=1"]}}],
    });
    let spec = Spec::parse(spec.to_string().as_bytes()).unwrap();
    SpecFacts {
        files: vec![SpecFileFacts {
            path: "/cdi/u".to_owned(),
            spec: Ok(Arc::new(spec)),
            is_shadowed: false,
            missing_paths: vec![],
            nodes: channels.into_iter().map(node).collect(),
        }],
        ..SpecFacts::default()
    }
}

fn of_channels(claims: &[Claim<'_>]) -> Vec<Finding> {
    check(&facts(claims), &SpecFacts::default())
}

fn of_spec(recorded: u32, opened: impl IntoIterator<Item = Option<i64>>) -> Vec<Finding> {
    check(&facts(&[("u", "d", 0, recorded)]), &specs(opened))
}

#[test]
fn two_domains_on_one_channel_are_an_error_that_names_both_and_their_claims() {
    let claims = [("u", "d", 0, 3), ("v", "e", 0, 3), ("w", "e", 0, 3)];
    let found = of_channels(&claims);
    let [shared] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (shared.id, shared.subject.as_str()),
        ("channel-of-two-owners", "channel 3")
    );
    for named in [
        "claim u (n/u, ComputeDomain d)",
        "claim v (n/v, ComputeDomain e)",
    ] {
        assert!(shared.evidence.contains(named), "{}", shared.evidence);
    }
    assert!(!shared.evidence.contains("more"), "{}", shared.evidence);
    assert!(
        shared.fix.contains("Lease of channel 3 ("),
        "{}",
        shared.fix
    );

    let third = of_channels(&[claims[0], claims[1], ("x", "f", 0, 3)]);
    assert!(
        third[0].evidence.contains("(and 1 more like it)"),
        "{}",
        third[0].evidence
    );
}

#[test]
fn a_domain_or_a_claim_owns_a_channel() {
    for claims in [
        // Claims of one domain share its channel; two domains do not.
        [("u", "d", 0, 3), ("v", "d", 0, 3)],
        [("u", "d", 0, 3), ("v", "e", 0, 4)],
        [("u", "d", 0, 0), ("v", "d", 0, 0)],
        // Group claims.
        [("u", "d", 5, 5), ("v", "d", 6, 6)],
    ] {
        assert_eq!(of_channels(&claims), [], "{claims:?}");
    }
    // A group claim's channel is not its domain's.
    for other in [("v", "d", 0, 5), ("v", "d", 5, 5)] {
        let found = of_channels(&[("u", "d", 5, 5), other]);
        assert_eq!(found.len(), 1, "{other:?}");
        assert!(
            found[0].evidence.contains("device channel-5"),
            "{}",
            found[0].evidence
        );
        assert!(
            found[0].fix.starts_with("delete the ResourceClaim n/u "),
            "{}",
            found[0].fix
        );
    }
}

#[test]
fn a_spec_must_open_the_recorded_channel_and_no_other() {
    assert_eq!(of_spec(3, [Some(3)]), []);
    for opened in [vec![Some(4)], vec![], vec![Some(3), Some(4)]] {
        let found = of_spec(3, opened.clone());
        assert_eq!(found.len(), 1, "{opened:?}");
        assert_eq!(found[0].id, "spec-of-another-channel");
        assert_eq!(found[0].subject, "/cdi/u");
        let recorded = "claim u (n/u, ComputeDomain d) has channel 3";
        assert!(
            found[0].evidence.ends_with(recorded),
            "{}",
            found[0].evidence
        );
    }
    // The number of a node that is taken from the host may be unknown.
    assert_eq!(of_spec(3, [None]), []);
}

#[test]
fn specs_of_the_go_driver_with_all_channels_or_none_match_channel_0() {
    assert_eq!(of_spec(0, []), []);
    assert_eq!(of_spec(0, (0..2048).map(Some)), []);
    let found = of_spec(0, (1..2048).map(Some));
    let evidence = &found[0].evidence;
    let some = "this spec opens channels 1-2047, but ";
    assert!(evidence.starts_with(some), "{evidence}");
}

#[test]
fn records_of_an_earlier_boot_or_unprepared_claims_open_no_channel() {
    let mut earlier = facts(&[("u", "d", 0, 3), ("v", "e", 0, 3)]);
    assert_eq!(check(&earlier, &specs([Some(4)])).len(), 2);
    earlier.boot_id = Some("later".to_owned());
    assert_eq!(check(&earlier, &specs([Some(4)])), []);

    let mut daemon = facts(&[("u", "d", 0, 3)]);
    if let CheckpointFile::Read(checkpoint) = &mut daemon.checkpoint {
        checkpoint.records.get_mut("u").unwrap().channels.clear();
    }
    assert_eq!(check(&daemon, &specs([Some(4)])), []);
    assert_eq!(summary(&daemon), None);
}

#[test]
fn claims_with_a_share_may_have_channel_0_together() {
    let found = |shares: [bool; 2], kubelet: Option<&[&str]>| {
        let mut facts = facts(&[("u", "d", 0, 0), ("v", "e", 0, 0)]);
        if let CheckpointFile::Read(checkpoint) = &mut facts.checkpoint {
            for (record, has_share) in checkpoint.records.values_mut().zip(shares) {
                record.has_share = has_share;
            }
        }
        if let Some(uids) = kubelet {
            let of_kubelet = KubeletClaim {
                name: String::new(),
                prepared: true,
                pods: BTreeSet::new(),
            };
            let claim = |uid: &&str| ((*uid).to_owned(), of_kubelet.clone());
            facts.kubelet = KubeletStateFile::Read(KubeletState {
                claims: uids.iter().map(claim).collect(),
            });
        }
        check(&facts, &SpecFacts::default())
    };
    for shares in [[true, true], [true, false]] {
        assert_eq!(found(shares, None), [], "{shares:?}");
    }
    let double = found([false, false], Some(&["u", "v"]));
    assert_eq!(double.len(), 1);
    assert_eq!(double[0].subject, "channel 0");
    assert!(
        double[0].fix.contains("imex.sharing=many"),
        "{}",
        double[0].fix
    );
    assert_eq!(found([false, false], None), double);
    // kubelet has unprepared the other claim: that is another finding.
    assert_eq!(found([false, false], Some(&["u"])), []);
}
