use compute_domain_api::names::channel_lease_name;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::SignedDuration;

use super::*;
use crate::channel_lease::lease_of;
use crate::channels::{Assigned, ChannelCounts, Offer};

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

/// An index with the channels 1 to 3 after empty lists.
fn mk_index() -> Index {
    let mut index = Index::new(Some(1..=3));
    index.begin_domains();
    index.finish_domains();
    index.begin_leases();
    index.finish_leases();
    index
}

/// A domain with our finalizer that was created at this minute.
fn waiting(uid: &str, minute: u32) -> Domain {
    patched(uid, minute, json!({}))
}

fn patched(uid: &str, minute: u32, patch: Value) -> Domain {
    let own = json!({ "metadata": {
        "uid": uid, "name": uid, "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
    } });
    mk_domain(merged(merged(finalized(), own), patch))
}

fn with_channel(uid: &str, minute: u32, number: u32) -> Domain {
    let status = json!({ "status": { "status": "NotReady", "channel": number } });
    patched(uid, minute, status)
}

fn mk_lease(uid: &str, number: u32, patch: Value) -> ChannelLease {
    let lease = lease_of(&waiting(uid, 0), number, false, now());
    let object = merged(serde_json::to_value(lease).unwrap(), patch);
    let lease: Lease = serde_json::from_value(object).unwrap();
    ChannelLease::new(&lease).unwrap()
}

/// A Lease with this version, and with the number as its UID.
fn lease_at(uid: &str, number: u32, version: u64) -> ChannelLease {
    let metadata =
        json!({ "uid": format!("lease-{number}"), "resourceVersion": version.to_string() });
    mk_lease(uid, number, json!({ "metadata": metadata }))
}

/// A Lease that was released long ago.
fn cooled_at(uid: &str, number: u32, version: u64) -> ChannelLease {
    let metadata =
        json!({ "uid": format!("lease-{number}"), "resourceVersion": version.to_string() });
    let spec = json!({ "renewTime": "2026-01-02T02:00:00.000000Z" });
    mk_lease(uid, number, json!({ "metadata": metadata, "spec": spec }))
}

fn offer(index: &Index, uid: &str) -> Offer {
    index.observe(uid, now()).channels.unwrap().offer
}

fn woken(index: &mut Index) -> Vec<String> {
    let woken = index.take_woken(now());
    woken.iter().map(ToString::to_string).collect()
}

#[test]
fn without_isolation_no_channels_are_observed() {
    let mut index = Index::new(None);
    index.apply_domain(waiting("a", 1));
    index.apply_lease(lease_at("a", 1, 1));
    assert!(index.observe("a", now()).channels.is_none());
    assert_eq!(index.channel_counts(now()), ChannelCounts::default());
}

#[test]
fn each_waiting_domain_is_offered_another_channel_by_age() {
    let mut index = mk_index();
    for (uid, minute) in [("d", 4), ("b", 2), ("a", 1), ("c", 3)] {
        index.apply_domain(waiting(uid, minute));
    }
    assert_eq!(offer(&index, "a"), Offer::Channel(1));
    assert_eq!(offer(&index, "b"), Offer::Channel(2));
    assert_eq!(offer(&index, "c"), Offer::Channel(3));
    assert_eq!(offer(&index, "d"), Offer::NoneFree(None));
    // Of the same age, the UID decides.
    index.apply_domain(waiting("bb", 2));
    assert_eq!(offer(&index, "bb"), Offer::Channel(3));
    assert_eq!(offer(&index, "c"), Offer::NoneFree(None));
}

#[test]
fn a_channel_that_is_about_to_be_taken_is_not_offered_to_others() {
    let mut index = mk_index();
    for (uid, minute) in [("a", 1), ("b", 2), ("older", 0)] {
        index.apply_domain(waiting(uid, minute));
        if uid == "a" {
            index.start_lease(&"a".into(), 1);
        }
    }
    assert_eq!(offer(&index, "older"), Offer::Channel(2));
    assert_eq!(offer(&index, "b"), Offer::Channel(3));
    // The channel was not taken.
    index.end_lease("a");
    assert_eq!(offer(&index, "older"), Offer::Channel(1));
    assert_eq!(offer(&index, "a"), Offer::Channel(2));
}

#[test]
fn a_channel_with_a_lease_or_in_a_status_is_not_free() {
    let mut index = mk_index();
    index.apply_domain(waiting("a", 1));
    index.apply_lease(cooled_at("foreign", 1, 1));
    assert_eq!(offer(&index, "a"), Offer::Channel(2));
    index.apply_domain(with_channel("other", 2, 2));
    index.apply_lease(lease_at("other", 2, 2));
    assert_eq!(offer(&index, "a"), Offer::Channel(3));
    index.remove_lease(1, "lease-9");
    assert_eq!(
        offer(&index, "a"),
        Offer::Channel(3),
        "another Lease is gone"
    );
    // A domain without our finalizer gets no new Lease.
    let unfinalized = json!({ "metadata": { "finalizers": null } });
    let status = json!({ "status": { "status": "NotReady", "channel": 3 } });
    index.apply_domain(patched("forged", 3, merged(unfinalized, status)));
    assert_eq!(offer(&index, "a"), Offer::NoneFree(None));
    index.remove_lease(1, "lease-1");
    assert_eq!(offer(&index, "a"), Offer::Channel(1));
}

#[test]
fn a_foreign_lease_is_skipped_for_a_while() {
    let mut index = mk_index();
    index.apply_domain(waiting("a", 1));
    let foreign = json!({ "metadata": { "labels": null } });
    index.learn_lease(mk_lease("a", 1, foreign), now());
    assert_eq!(offer(&index, "a"), Offer::Channel(2));
    index.apply_lease(lease_at("b", 2, 1));
    index.apply_lease(lease_at("c", 3, 2));
    assert_eq!(offer(&index, "a"), Offer::NoneFree(Some(after(600))));
    let later = index.observe("a", after(600)).channels.unwrap().offer;
    assert_eq!(later, Offer::Channel(1));
}

#[test]
fn a_domain_that_wants_no_channel_is_not_in_the_line() {
    let mut index = mk_index();
    for (uid, patch) in [
        ("unfinalized", json!({ "metadata": { "finalizers": null } })),
        ("deleted", deleted()),
        ("unusable", crate::fixtures::with_template_name("No_Name")),
        ("ready", json!({ "status": { "status": "Ready" } })),
        (
            "zero",
            json!({ "status": { "status": "NotReady", "channel": 0 } }),
        ),
        ("other", reason("DriverManagedLeftovers")),
    ] {
        index.apply_domain(patched(uid, 0, patch));
    }
    index.apply_domain(patched("waits", 1, reason("NoChannelFree")));
    assert_eq!(offer(&index, "waits"), Offer::Channel(1));
    assert_eq!(offer(&index, "ready"), Offer::Nothing);
    assert_eq!(offer(&index, "zero"), Offer::Nothing);
}

fn reason(reason: &str) -> Value {
    json!({ "status": { "status": "NotReady", "conditions": [{
        "type": "Ready", "status": "False", "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } })
}

#[test]
fn when_a_channel_is_free_only_the_first_in_the_line_is_woken() {
    let mut index = mk_index();
    for number in 1..4 {
        index.apply_lease(cooled_at("foreign", number, number.into()));
    }
    for (uid, minute) in [("b", 2), ("a", 1), ("c", 3)] {
        index.apply_domain(waiting(uid, minute));
    }
    index.take_woken(now());
    index.remove_lease(2, "lease-2");
    assert_eq!(woken(&mut index), ["a", "foreign"]);
    assert_eq!(woken(&mut index), [""; 0]);
    // The first domain is deleted without having taken it.
    index.remove_domain("a");
    assert_eq!(woken(&mut index), ["b"]);
}

#[test]
fn all_domains_that_a_lease_affects_are_woken() {
    let mut index = mk_index();
    index.apply_domain(with_channel("a", 1, 1));
    index.apply_domain(with_channel("b", 2, 1));
    index.apply_lease(lease_at("a", 1, 1));
    assert_eq!(woken(&mut index), ["a", "b"]);
    // A user edits the holder.
    index.apply_lease(lease_at("c", 1, 2));
    assert_eq!(woken(&mut index), ["a", "b", "c"]);
    assert!(index.is_lease_left("c") && !index.is_lease_left("a"));
    // A stale watch event changes nothing.
    index.apply_lease(lease_at("a", 1, 1));
    assert_eq!(woken(&mut index), [""; 0]);
    index.remove_domain("a");
    assert_eq!(woken(&mut index), ["b"]);
    // A Lease that a new list does not have is deleted.
    index.begin_leases();
    index.finish_leases();
    assert_eq!(woken(&mut index), ["b", "c"]);
    assert!(!index.is_lease_left("c"));
}

#[test]
fn the_channel_in_a_status_belongs_to_the_leases_holder_or_else_to_the_oldest_domain() {
    let mut index = mk_index();
    let of = |index: &Index, uid: &str| index.observe(uid, now()).channels.unwrap().assigned;
    index.apply_domain(with_channel("a", 1, 1));
    index.apply_domain(with_channel("b", 2, 1));
    index.apply_domain(with_channel("far", 3, 4));
    index.apply_domain(with_channel("last", 4, 3));
    assert!(matches!(of(&index, "a"), Some(Assigned::Unowned)));
    assert!(matches!(of(&index, "last"), Some(Assigned::Unowned)));
    assert!(matches!(of(&index, "b"), Some(Assigned::Older(older)) if older.name() == "a"));
    assert!(matches!(of(&index, "far"), Some(Assigned::OutOfRange)));
    index.apply_lease(lease_at("b", 1, 1));
    for uid in ["a", "b"] {
        let holder = of(&index, uid);
        assert!(matches!(holder, Some(Assigned::Holder(it)) if it.name() == channel_lease_name(1)));
    }
}

#[test]
fn a_channel_below_the_first_stays_valid_but_is_not_assigned_again() {
    let mut index = Index::new(Some(128..=130));
    index.finish_leases();
    let assigned = |index: &Index, uid: &str| index.observe(uid, now()).channels.unwrap().assigned;
    index.apply_domain(with_channel("before", 1, 5));
    index.apply_domain(with_channel("forged", 2, 6));
    index.apply_lease(lease_at("before", 5, 1));
    assert!(matches!(
        assigned(&index, "before"),
        Some(Assigned::Holder(_))
    ));
    assert!(matches!(
        assigned(&index, "forged"),
        Some(Assigned::OutOfRange)
    ));
    index.apply_domain(patched("new", 3, json!({})));
    let offer = index.observe("new", now()).channels.unwrap().offer;
    assert_eq!(offer, Offer::Channel(128));
    let ChannelCounts { used, free, .. } = index.channel_counts(now());
    assert_eq!((used, free), (0, 3));
}

#[test]
fn no_channel_is_offered_while_leases_are_lost_or_have_just_been_created_again() {
    let mut index = mk_index();
    index.apply_domain(waiting("new", 2));
    index.apply_domain(with_channel("a", 1, 1));
    assert_eq!(offer(&index, "new"), Offer::Rebuilding(after(600)));
    let mark = json!({ "metadata": { "resourceVersion": "1", "annotations": {
        "resource.nvidia.com/imexChannelRebuilt": "2026-01-02T03:00:00Z",
    } } });
    index.learn_lease(mk_lease("a", 1, mark), now());
    assert_eq!(offer(&index, "new"), Offer::Rebuilding(after(355)));
    let later = index.observe("new", after(355)).channels.unwrap().offer;
    assert_eq!(later, Offer::Channel(2));
}

#[test]
fn a_lease_that_others_delete_is_remembered_until_it_is_restored_or_has_cooled_down() {
    let released = json!({ "metadata": { "resourceVersion": "1", "uid": "lease-1" },
        "spec": { "renewTime": "2026-01-02T03:00:00.000000Z" } });
    for lease in [lease_at("a", 1, 1), mk_lease("a", 1, released)] {
        let mut index = mk_index();
        let is_released = lease.is_released();
        index.apply_domain(waiting("new", 2));
        index.apply_lease(lease);
        woken(&mut index);
        index.remove_lease(1, "lease-1");
        assert!(woken(&mut index).contains(&"a".to_owned()));
        assert_eq!(offer(&index, "new"), Offer::Channel(2));
        let lost = |index: &Index| index.observe("a", now()).channels.unwrap().lost.len();
        assert_eq!((lost(&index), index.channel_counts(now()).used), (1, 1));
        index.take_woken(after(355));
        let later = if is_released { 1 } else { 2 };
        assert_eq!(offer(&index, "new"), Offer::Channel(later));

        index.remove_lease(1, "lease-1");
        index.apply_lease(lease_at("a", 1, 2));
        assert_eq!(lost(&index), 0);
    }
}

#[test]
fn a_lease_missing_in_a_list_is_lost_but_a_replaced_one_is_not() {
    let mut index = mk_index();
    index.apply_lease(lease_at("a", 1, 1));
    index.begin_leases();
    index.finish_leases();
    let lost = |index: &Index| index.observe("a", now()).channels.unwrap().lost.len();
    assert_eq!(lost(&index), 1);
    let unlabelled = json!({ "metadata": { "labels": null } });
    index.learn_lease(mk_lease("other", 1, unlabelled), now());
    assert_eq!(lost(&index), 0);
}

#[test]
fn only_claims_in_the_namespace_of_the_domain_count() {
    let mut index = mk_index();
    let has_claims = |index: &Index| index.observe("a", now()).channels.unwrap().has_claims;
    index.apply_lease(lease_at("a", 1, 1));
    index.apply_claim("a".into(), ("team-2".into(), "claim".into()));
    assert!(!has_claims(&index));
    index.apply_claim("a".into(), ("team-1".into(), "claim".into()));
    assert!(has_claims(&index));
}

#[test]
fn channels_are_counted_once_the_leases_are_listed() {
    let unlisted = Index::new(Some(1..=3));
    assert_eq!(unlisted.channel_counts(now()), ChannelCounts::default());
    let mut index = mk_index();
    let released = json!({ "spec": { "renewTime": "2026-01-02T03:04:05.000000Z" } });
    index.apply_lease(mk_lease("a", 1, released));
    index.apply_lease(lease_at("b", 2, 1));
    let counts = ChannelCounts {
        used: 1,
        free: 1,
        cooling: 1,
    };
    assert_eq!(index.channel_counts(now()), counts);
    index.clear();
    assert_eq!(index.channel_counts(now()), ChannelCounts::default());
    index.apply_domain(waiting("a", 1));
    assert_eq!(
        offer(&index, "a"),
        Offer::Channel(1),
        "there are still channels"
    );
}

#[test]
fn channels_below_the_first_are_not_assigned_and_lowering_it_wakes_all_affected_domains() {
    let mut index = mk_index();
    index.set_first_channel(3);
    index.apply_domain(waiting("new", 2));
    index.apply_domain(with_channel("a", 1, 2));
    index.take_woken(now());
    assert_eq!(offer(&index, "new"), Offer::Channel(3));
    let assigned = |index: &Index| index.observe("a", now()).channels.unwrap().assigned;
    assert!(matches!(assigned(&index), Some(Assigned::OutOfRange)));
    index.set_first_channel(1);
    assert_eq!(woken(&mut index), ["a", "new"]);
    assert!(matches!(assigned(&index), Some(Assigned::Unowned)));
    index.apply_lease(lease_at("a", 2, 1));
    assert_eq!(offer(&index, "new"), Offer::Channel(1));
}

#[test]
fn while_the_first_is_beyond_the_last_no_channel_is_assigned_and_assigned_ones_stay() {
    let mut index = mk_index();
    index.apply_lease(lease_at("a", 2, 1));
    index.apply_domain(with_channel("a", 1, 2));
    index.set_first_channel(128);
    index.apply_domain(waiting("new", 2));
    assert_eq!(offer(&index, "new"), Offer::NoneFree(None));
    assert_eq!(index.channel_counts(now()), ChannelCounts::default());
    let assigned = index.observe("a", now()).channels.unwrap().assigned;
    assert!(matches!(assigned, Some(Assigned::Holder(_))));
    index.set_first_channel(1);
    assert_eq!(offer(&index, "new"), Offer::Channel(1));
}
