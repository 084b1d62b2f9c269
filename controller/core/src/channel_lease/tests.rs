use serde_json::json;

use super::*;
use crate::fixtures::{UID, finalized, mk_domain};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-01-02T03:04:05Z")
}

fn mk_lease(number: u32, rebuilt: bool) -> Lease {
    let mut lease = lease_of(&mk_domain(finalized()), number, rebuilt, now());
    lease.metadata.uid = Some("lease-uid".to_owned());
    lease.metadata.resource_version = Some("7".to_owned());
    lease
}

fn mk_named(name: &str) -> Option<ChannelLease> {
    let mut lease = mk_lease(5, false);
    lease.metadata.name = Some(name.to_owned());
    ChannelLease::new(&lease)
}

#[test]
fn a_lease_names_its_holder_with_namespace_and_name() {
    let lease = mk_lease(5, false);
    assert_eq!(lease.metadata.name.as_deref(), Some("imex-channel-0005"));
    let written = serde_json::to_value(&lease.spec).unwrap();
    assert_eq!(
        written,
        json!({ "holderIdentity": UID, "acquireTime": "2026-01-02T03:04:05.000000Z" })
    );
    let observed = ChannelLease::new(&lease).unwrap();
    assert_eq!(observed.number(), 5);
    assert_eq!(observed.holder().map(|it| &**it), Some(UID));
    assert!(observed.is_labelled() && !observed.is_released());
    let home = observed.home().unwrap();
    assert_eq!((&*home.namespace, &*home.name), ("team-1", "train-a"));
}

#[test]
fn a_name_that_is_too_long_for_a_label_is_in_the_annotation_only() {
    let long = "a".repeat(200);
    let domain = mk_domain(json!({ "metadata": { "name": long } }));
    let metadata = lease_of(&domain, 5, false, now()).metadata;
    assert_eq!(metadata.annotations.unwrap()[DOMAIN_NAME_ANNOTATION], long);
    let labels = metadata.labels.unwrap();
    assert!(!labels.contains_key(DOMAIN_NAME_ANNOTATION));
    assert!(labels.contains_key(DOMAIN_NAMESPACE_ANNOTATION));
}

#[test]
fn only_names_of_channel_leases_give_channels() {
    let number = |name| mk_named(name).map(|it| it.number());
    assert_eq!(number("imex-channel-0001"), Some(1));
    assert_eq!(number("imex-channel-12345"), Some(12_345));
    for other in [
        "imex-channel-0000",
        "imex-channel-1",
        "imex-channel-00001",
        "imex-channel-+001",
        "imex-channel-",
        "imex-channel-99999999999",
        "channel-0001",
    ] {
        assert_eq!(number(other), None, "{other}");
    }
}

#[test]
fn a_lease_without_identity_has_no_holder() {
    let mut lease = mk_lease(5, false);
    lease.spec.as_mut().unwrap().holder_identity = Some(String::new());
    assert_eq!(ChannelLease::new(&lease).unwrap().holder(), None);
    lease.spec = None;
    assert_eq!(ChannelLease::new(&lease).unwrap().holder(), None);
    assert_eq!(ChannelLease::new(&lease).unwrap().restored(), None);
}

#[test]
fn an_unreadable_lease_belongs_to_the_holder_in_its_label_and_is_written_again() {
    let lease = ChannelLease::undecodable(&mk_lease(5, false).metadata).unwrap();
    assert_eq!((lease.number(), &**lease.holder().unwrap()), (5, UID));
    assert!(lease.is_released() && !lease.is_cooling(now()));
    for patch in [lease.released_at(now()), lease.taken_back()] {
        assert_eq!(patch["spec"]["holderIdentity"], UID);
        assert_eq!(patch["spec"].get("acquireTime"), Some(&Value::Null));
    }
    let mut unlabelled = mk_lease(5, false).metadata;
    unlabelled.labels = None;
    assert_eq!(
        ChannelLease::undecodable(&unlabelled).unwrap().holder(),
        None
    );
}

#[test]
fn a_restored_lease_has_the_same_content_and_release_time() {
    let mut lease = mk_lease(5, true);
    lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(now()));
    let before = ChannelLease::new(&lease).unwrap();
    let restored = before.restored().unwrap();
    assert_eq!(restored.metadata.labels, lease.metadata.labels);
    assert_eq!(restored.metadata.annotations, lease.metadata.annotations);
    let spec = serde_json::to_value(&restored.spec).unwrap();
    assert_eq!(
        spec,
        json!({ "holderIdentity": UID, "leaseDurationSeconds": 600, "renewTime": "2026-01-02T03:04:05.000000Z" })
    );
}

#[test]
fn patches_apply_only_to_this_version_of_this_lease() {
    let lease = ChannelLease::new(&mk_lease(5, false)).unwrap();
    let metadata = json!({ "uid": "lease-uid", "resourceVersion": "7" });
    assert_eq!(
        lease.released_at(now()),
        json!({
            "metadata": metadata,
            "spec": { "renewTime": "2026-01-02T03:04:05.000000Z", "leaseDurationSeconds": 600 },
        })
    );
    assert_eq!(
        lease.taken_back(),
        json!({ "metadata": metadata, "spec": { "renewTime": null, "leaseDurationSeconds": null } })
    );
    let labels = &lease.relabelled()["metadata"];
    assert_eq!(
        labels["labels"],
        json!({ "resource.nvidia.com/imexChannel": "5" })
    );
    assert_eq!(labels["resourceVersion"], "7");
}

#[test]
fn a_future_release_does_not_count_and_the_latest_time_does_not_overflow() {
    let mut lease = mk_lease(5, false);
    let released = |lease: &mut Lease, time| {
        lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(time));
        ChannelLease::new(lease).unwrap()
    };
    assert!(released(&mut lease, now()).is_cooling(now()));
    let early = released(&mut lease, at("1970-01-01T00:00:00Z"));
    assert!(early.cooled_at().unwrap() < now());
    let late = released(&mut lease, Timestamp::MAX);
    assert!(late.is_released() && !late.is_cooling(now()));
    assert_eq!(late.cooled_at(), Some(Timestamp::MAX));
}

#[test]
fn a_rebuilt_lease_suspends_for_a_cool_down_but_a_far_future_mark_does_not() {
    let lease = ChannelLease::new(&mk_lease(5, true)).unwrap();
    let until = at("2026-01-02T03:14:05Z");
    assert_eq!(lease.suspends_until(now()), Some(until));
    assert_eq!(lease.suspends_until(at("2026-01-02T03:14:05Z")), None);
    // A clock that was slightly ahead, and a foreign mark.
    assert_eq!(
        lease.suspends_until(at("2026-01-02T02:59:00Z")),
        Some(until)
    );
    assert_eq!(lease.suspends_until(at("2026-01-02T02:00:00Z")), None);
    let plain = ChannelLease::new(&mk_lease(5, false)).unwrap();
    assert_eq!(plain.suspends_until(now()), None);
    let mut unreadable = mk_lease(5, true);
    let annotations = unreadable.metadata.annotations.as_mut().unwrap();
    annotations.insert(REBUILT_ANNOTATION.to_owned(), "yesterday".to_owned());
    let unreadable = ChannelLease::new(&unreadable).unwrap();
    assert_eq!(unreadable.suspends_until(now()), None);
}
