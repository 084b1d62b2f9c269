//! Every ComputeDomain has its own channel.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::*;
use crate::channel_lease::{ChannelLease, lease_of};
use crate::channels::{Assigned, ObservedChannels, Offer};
use crate::fixtures::{deleted, with_template_name};

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn mk_channels() -> ObservedChannels {
    ObservedChannels {
        now: now(),
        count: 2_048,
        held: Vec::new(),
        lost: Vec::new(),
        has_claims: false,
        assigned: None,
        offer: Offer::Nothing,
    }
}

fn mk_lease(number: u32) -> Arc<ChannelLease> {
    let lease = lease_of(&mk_domain(finalized()), number, false, now());
    Arc::new(ChannelLease::new(&lease).unwrap())
}

/// A Lease that was released this many seconds ago.
fn released(number: u32, seconds: i64) -> Arc<ChannelLease> {
    let mut lease = lease_of(&mk_domain(finalized()), number, false, now());
    let released = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(after(-seconds));
    lease.spec.as_mut().unwrap().renew_time = Some(released);
    Arc::new(ChannelLease::new(&lease).unwrap())
}

fn with_channel(patch: Value, number: u32) -> Domain {
    let status = json!({ "status": { "status": "NotReady", "channel": number } });
    mk_domain(merged(patch, status))
}

fn observe_channels(domain: Domain, channels: ObservedChannels) -> Observed {
    Observed {
        channels: Some(channels),
        ..observe(domain, [])
    }
}

/// The channels of a domain that does not exist.
fn observe_left(held: Vec<Arc<ChannelLease>>, has_claims: bool) -> Observed {
    Observed {
        channels: Some(ObservedChannels {
            held,
            has_claims,
            ..mk_channels()
        }),
        ..Observed::default()
    }
}

fn mk_refused() -> Rejection {
    Rejection::ChannelRefused {
        message: "exceeded quota".to_owned(),
    }
}

fn tried() -> Findings {
    Findings {
        channel_tried: true,
        ..mk_findings()
    }
}

fn looked_up() -> Findings {
    Findings {
        absent_in: vec!["team-1".into()],
        ..mk_findings()
    }
}

fn offered(offer: Offer) -> Observed {
    let channels = ObservedChannels {
        offer,
        ..mk_channels()
    };
    observe_channels(mk_domain(finalized()), channels)
}

#[test]
fn the_finalizer_precedes_the_lease_and_a_check_of_the_crd_precedes_the_first_lease() {
    let new = observe_channels(mk_domain(json!({})), mk_channels());
    let first = decide_first(&new);
    assert!(matches!(first, Decision::Send(Request::AddFinalizer(_))));
    let observed = offered(Offer::Channel(7));
    let look = decide_first(&observed);
    assert_eq!(look, Decision::Send(Request::TryChannel));
    let Decision::Send(Request::CreateLease(7, lease)) = decide_with(&observed, &tried()) else {
        panic!("no Lease");
    };
    assert_eq!(lease.metadata.name.as_deref(), Some("imex-channel-0007"));
    let created = ChannelLease::new(&lease).unwrap();
    assert_eq!(created.suspends_until(now()), None);
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some(UID));
}

#[test]
fn the_status_precedes_the_template_and_has_the_lowest_lease() {
    let channels = ObservedChannels {
        held: vec![released(1, 0), mk_lease(3), mk_lease(5)],
        ..mk_channels()
    };
    let observed = observe_channels(mk_domain(finalized()), channels);
    let decision = decide_with(&observed, &tried());
    assert_eq!(decision, write(Admission::Assigned(3)));
}

#[test]
fn a_domain_gets_a_template_only_with_a_confirmed_channel() {
    let assigned = |assigned| {
        let channels = ObservedChannels {
            held: vec![mk_lease(3)],
            assigned: Some(assigned),
            ..mk_channels()
        };
        observe_channels(with_channel(finalized(), 3), channels)
    };
    let confirmed = decide_with(&assigned(Assigned::Holder(mk_lease(3))), &tried());
    assert!(matches!(
        confirmed,
        Decision::Send(Request::CreateTemplate(_))
    ));
    let holder = mk_domain(json!({ "metadata": { "uid": "other-uid", "name": "train-b" } }));
    let lease = ChannelLease::new(&lease_of(&holder, 3, false, now())).unwrap();
    for other in [
        Assigned::Holder(Arc::new(lease)),
        Assigned::Older(Arc::new(holder)),
    ] {
        let message = rejection(decide_with(&assigned(other), &tried())).message();
        for part in [UID, "team-1/train-a", "other-uid", "team-1/train-b"] {
            assert!(message.contains(part), "{message}");
        }
    }
    for other in [Assigned::OutOfRange, Assigned::Foreign(now())] {
        let rejection = rejection(decide_with(&assigned(other), &tried()));
        assert_eq!(rejection.reason(), "ChannelNotConfirmed");
    }
}

#[test]
fn a_domain_without_a_channel_gets_the_reason_and_a_retry_when_one_may_be_free() {
    for (offer, reason, wake_at) in [
        (Offer::NoneFree(None), "NoChannelFree", None),
        (
            Offer::NoneFree(Some(after(5))),
            "NoChannelFree",
            Some(after(5)),
        ),
        (
            Offer::Rebuilding(after(9)),
            "ChannelsBeingRebuilt",
            Some(after(9)),
        ),
    ] {
        let observed = offered(offer);
        assert_eq!(rejection(decide_first(&observed)).reason(), reason);
        assert_eq!(observed.channels.unwrap().wake_at(), wake_at);
    }
    let mut findings = tried();
    findings.schema.channel = false;
    let decision = decide_with(&offered(Offer::Channel(7)), &findings);
    assert_eq!(rejection(decision).reason(), "ChannelFieldMissing");
}

#[test]
fn a_rejected_domain_gets_no_channel() {
    let channels = ObservedChannels {
        offer: Offer::Channel(7),
        ..mk_channels()
    };
    let unusable = merged(finalized(), with_template_name("No_Name"));
    let observed = observe_channels(mk_domain(unusable), channels);
    let reason = rejection(decide_with(&observed, &tried())).reason();
    assert_eq!(reason, "InvalidTemplateName");
}

#[test]
fn a_lost_lease_is_created_again_for_a_live_domain_and_for_one_that_is_being_deleted() {
    for patch in [finalized(), deleted()] {
        let channels = ObservedChannels {
            assigned: Some(Assigned::Unowned),
            ..mk_channels()
        };
        let observed = observe_channels(with_channel(patch, 3), channels);
        let Decision::Send(Request::CreateLease(3, lease)) = decide_first(&observed) else {
            panic!("no Lease");
        };
        assert!(
            ChannelLease::new(&lease)
                .unwrap()
                .suspends_until(now())
                .is_some()
        );
    }
}

#[test]
fn a_deletion_continues_although_the_lease_is_refused() {
    let channels = ObservedChannels {
        assigned: Some(Assigned::Unowned),
        ..mk_channels()
    };
    let observed = observe_channels(with_channel(deleted(), 3), channels);
    let findings = Findings {
        refusal: Some(mk_refused()),
        ..without_template()
    };
    assert_eq!(decide_with(&observed, &findings), remove_finalizer());
}

#[test]
fn a_refused_lease_is_reported_with_the_api_servers_message() {
    let findings = Findings {
        refusal: Some(mk_refused()),
        ..tried()
    };
    let wanted = decide_with(&offered(Offer::Channel(7)), &findings);
    assert_eq!(rejection(wanted), mk_refused());
    let channels = ObservedChannels {
        assigned: Some(Assigned::Unowned),
        ..mk_channels()
    };
    let lost = observe_channels(with_channel(finalized(), 3), channels);
    let message = rejection(decide_with(&lost, &findings)).message();
    assert!(message.contains("exceeded quota"), "{message}");
}

#[test]
fn a_lease_that_others_deleted_is_restored_with_or_without_its_domain() {
    let lost = |lease, domain: Option<Domain>| Observed {
        channels: Some(ObservedChannels {
            lost: vec![lease],
            ..mk_channels()
        }),
        domain: domain.map(Into::into),
        ..Observed::default()
    };
    for lease in [mk_lease(3), released(3, 100)] {
        let decision = decide_first(&lost(lease.clone(), None));
        let Decision::Send(Request::RestoreLease(restored)) = decision else {
            panic!("{decision:?}");
        };
        let restored = ChannelLease::new(&restored).unwrap();
        assert_eq!(restored, *lease);
        assert_eq!(restored.suspends_until(now()), None);
    }
    // The channel is in the status: the Lease gets a mark, since others may be lost, too.
    let mut observed = lost(mk_lease(3), Some(with_channel(finalized(), 3)));
    let channels = observed.channels.as_mut().unwrap();
    channels.assigned = Some(Assigned::Unowned);
    let decision = decide_first(&observed);
    assert!(
        matches!(decision, Decision::Send(Request::CreateLease(3, _))),
        "{decision:?}"
    );
}

#[test]
fn the_lease_of_a_deleted_domain_is_released_after_a_look_up_and_deleted_after_a_cool_down() {
    let lease = mk_lease(3);
    let held = observe_left(vec![lease.clone()], false);
    let look_up = Decision::Send(Request::LookUpDomain {
        namespace: "team-1".into(),
        name: Some("train-a".into()),
    });
    assert_eq!(decide_first(&held), look_up);
    let release = Request::ChangeLease(lease.clone(), lease.released_at(now()));
    assert_eq!(decide_with(&held, &looked_up()), Decision::Send(release));

    let cooling = observe_left(vec![released(3, 599)], false);
    assert_eq!(decide_first(&cooling), Decision::Done(Outcome::Gone));
    assert_eq!(cooling.channels.unwrap().wake_at(), Some(after(1)));
    let cooled = observe_left(vec![released(3, 600)], false);
    assert_eq!(decide_first(&cooled), look_up);
    let delete = Decision::Send(Request::DeleteLease(released(3, 600)));
    assert_eq!(decide_with(&cooled, &looked_up()), delete);
}

#[test]
fn claims_keep_the_lease_of_a_deleted_domain() {
    let held = observe_left(vec![mk_lease(3)], true);
    let decision = decide_with(&held, &looked_up());
    assert_eq!(decision, Decision::Done(Outcome::Gone));
    let lease = released(3, 600);
    let again = observe_left(vec![lease.clone()], true);
    let patch = lease.taken_back();
    assert_eq!(
        decide_with(&again, &looked_up()),
        Decision::Send(Request::ChangeLease(lease, patch))
    );
}

#[test]
fn a_future_release_is_written_again_and_a_domain_without_a_namespace_is_searched_in_all() {
    let lease = released(3, -1_000);
    let ahead = observe_left(vec![lease.clone()], false);
    let patch = lease.released_at(now());
    assert_eq!(
        decide_with(&ahead, &looked_up()),
        Decision::Send(Request::ChangeLease(lease, patch))
    );
    let mut object = lease_of(&mk_domain(finalized()), 3, false, now());
    object.metadata.annotations = None;
    let lost = Arc::new(ChannelLease::new(&object).unwrap());
    assert_eq!(
        decide_first(&observe_left(vec![lost], false)),
        Decision::Send(Request::LookUpDomain {
            namespace: "".into(),
            name: None,
        })
    );
}

#[test]
fn a_second_lease_of_a_domain_is_released_last() {
    let (own, extra) = (mk_lease(3), mk_lease(5));
    let channels = ObservedChannels {
        held: vec![own.clone(), extra.clone()],
        assigned: Some(Assigned::Holder(own)),
        ..mk_channels()
    };
    let confirmed = with_channel(finalized(), 3);
    let status = status_of(&confirmed);
    let observed = Observed {
        channels: Some(channels),
        ..observe(
            mk_domain(merged(finalized(), status)),
            template_patched(json!({})),
        )
    };
    let patch = extra.released_at(now());
    assert_eq!(
        decide_with(&observed, &tried()),
        Decision::Send(Request::ChangeLease(extra, patch))
    );
}

/// The status of the domain when it is admitted.
fn status_of(domain: &Domain) -> Value {
    let (report, schema) = (Admission::Admitted.into(), StatusSchema::FULL);
    let patch = crate::status_patch(domain, &report, schema, now());
    json!({ "status": patch["status"] })
}

#[test]
fn a_domain_that_was_ready_before_is_admitted_without_isolation() {
    let observed = Observed {
        channels: Some(mk_channels()),
        ..observe(ready(), template_patched(json!({})))
    };
    assert_eq!(decide_first(&observed), write(Admission::NotIsolated));
}
