use serde_json::{Value, json};

use super::*;
use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};

fn config() -> LeaseConfig {
    LeaseConfig {
        namespace: "ns".into(),
        name: "the-lease".into(),
        identity: "me".into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

fn mk_lease(holder: &str, renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": "the-lease", "namespace": "ns" },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.000000Z",
            "renewTime": renewed,
            "leaseTransitions": 3,
        },
    })
}

fn mk_observed(holder: &str, since: Instant) -> ObservedLease {
    ObservedLease {
        lease: serde_json::from_value(mk_lease(holder, "2026-01-02T03:04:05.000000Z")).unwrap(),
        since,
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_waits_until_the_lease_is_unchanged_for_its_duration() {
    let since = Instant::now();
    let observed = mk_observed("other", since);
    assert_eq!(decide(None, "me", since), LeaseAction::Create);
    assert_eq!(decide(Some(&observed), "me", since), LeaseAction::Wait);
    assert_eq!(
        decide(Some(&observed), "me", since + Duration::from_millis(14_999)),
        LeaseAction::Wait
    );
    assert_eq!(
        decide(Some(&observed), "me", since + Duration::from_secs(15)),
        LeaseAction::Take
    );
    assert_eq!(
        decide(Some(&mk_observed("", since)), "me", since),
        LeaseAction::Take
    );
    assert_eq!(
        decide(Some(&mk_observed("me", since)), "me", since),
        LeaseAction::Renew
    );
}

#[test]
fn taking_the_lease_counts_a_transition_and_renewing_does_not() {
    let now: Timestamp = "2026-01-02T04:00:00Z".parse().unwrap();
    let before: Lease =
        serde_json::from_value(mk_lease("other", "2026-01-02T03:04:05.000000Z")).unwrap();
    let taken = held_lease(Some(&before), &config(), now);
    assert_eq!(
        serde_json::to_value(&taken).unwrap()["spec"],
        json!({
            "acquireTime": "2026-01-02T04:00:00.000000Z",
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 4,
            "renewTime": "2026-01-02T04:00:00.000000Z",
        })
    );
    assert_eq!(
        taken.metadata, before.metadata,
        "with its version, if it has one"
    );

    let later: Timestamp = "2026-01-02T04:00:02Z".parse().unwrap();
    let renewed = held_lease(Some(&taken), &config(), later).spec.unwrap();
    assert_eq!(renewed.acquire_time, Some(MicroTime(now)));
    assert_eq!(renewed.renew_time, Some(MicroTime(later)));
    assert_eq!(renewed.lease_transitions, Some(4));
}

/// Another replica takes or releases the lease.
fn hand_over(api: &FakeApi, holder: &str) {
    api.edit(Resource::Leases, "ns", "the-lease", |lease| {
        lease["spec"]["holderIdentity"] = json!(holder);
    });
}

fn holder(api: &FakeApi) -> Value {
    let lease = api.get(Resource::Leases, "ns", "the-lease").unwrap();
    lease["spec"]["holderIdentity"].clone()
}

async fn mk_leader(api: &FakeApi) -> (Elector, Fence) {
    let fence = Fence::default();
    let mut elector = Elector::new(api.client(), config(), fence.clone());
    assert!(!fence.is_open(), "before the lease is held");
    elector.acquire().await;
    assert!(fence.is_open());
    (elector, fence)
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_creates_the_lease() {
    let api = FakeApi::new();
    mk_leader(&api).await;
    assert_eq!(api.calls(), [Call::GetLease, Call::CreateLease]);
    assert_eq!(holder(&api), "me");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let api = FakeApi::new();
    api.create(mk_lease("", "2026-01-02T03:04:05.000000Z"));
    let started = Instant::now();
    mk_leader(&api).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(holder(&api), "me");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_loses_the_race_waits() {
    let api = FakeApi::new();
    api.create(mk_lease("", "2026-01-02T03:04:05.000000Z"));
    api.break_with(Rule::once(Call::UpdateLease, Fault::Conflict));
    let client = api.client();
    let waiting = tokio::spawn(async move {
        Elector::new(client, config(), Fence::default())
            .acquire()
            .await;
    });
    api.until("another was faster", |api| api.faults_fired() == 1)
        .await;
    hand_over(&api, "other");
    let started = Instant::now();
    waiting.await.unwrap();
    // It checks at least every two seconds, and counts from its first sight of the holder.
    let waited = started.elapsed().as_secs_f64();
    assert!((15.0..=19.0).contains(&waited), "{waited}");
    assert_eq!(holder(&api), "me");
}

#[tokio::test(start_paused = true)]
async fn candidates_do_not_retry_in_step() {
    let api = FakeApi::new();
    api.create(mk_lease("other", "2026-01-02T03:04:05.000000Z"));
    mk_leader(&api).await;
    let times = api.times(Call::GetLease);
    let mut pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (shortest, longest) = (Duration::from_millis(1_499), Duration::from_millis(2_001));
    assert!(
        pauses
            .iter()
            .all(|pause| (shortest..=longest).contains(pause)),
        "{pauses:?}"
    );
    pauses.sort_unstable();
    pauses.dedup();
    assert!(pauses.len() > 1, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_within_its_deadline() {
    for fault in [Fault::InternalError, Fault::NoAnswer, Fault::RequestLost] {
        let api = FakeApi::new();
        let (mut elector, fence) = mk_leader(&api).await;
        api.break_with(Rule::always(Call::GetLease, fault));
        let started = Instant::now();
        elector.renew_until_lost().await;
        let took = started.elapsed();
        assert!(took <= Duration::from_secs(10), "{fault:?}: {took:?}");
        assert!(!fence.is_open());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_occasional_failed_renewals() {
    let api = FakeApi::new();
    let (mut elector, fence) = mk_leader(&api).await;
    for (call, fault) in [
        (Call::GetLease, Fault::InternalError),
        (Call::UpdateLease, Fault::Conflict),
        (Call::UpdateLease, Fault::AnswerLost),
    ] {
        api.break_with(Rule::once(call, fault).times(3));
        let renewing = timeout(Duration::from_secs(20), elector.renew_until_lost());
        assert!(renewing.await.is_err(), "the lease is lost after {fault:?}");
    }
    assert_eq!(api.faults_fired(), 9);
    assert!(fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_holder_stops_at_once() {
    let api = FakeApi::new();
    let (mut elector, fence) = mk_leader(&api).await;
    hand_over(&api, "other");
    let started = Instant::now();
    elector.renew_until_lost().await;
    assert_eq!(started.elapsed(), config().retry_period);
    assert!(!fence.is_open());
    assert_eq!(holder(&api), "other");
}

// req: CD-26
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_paused_past_its_lease_finds_the_fence_closed() {
    let api = FakeApi::new();
    let (_elector, fence) = mk_leader(&api).await;
    tokio::time::advance(config().lease_duration).await;
    assert!(!fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_hands_its_lease_over() {
    let api = FakeApi::new();
    let (mut elector, _fence) = mk_leader(&api).await;
    elector.release().await;
    assert_eq!(holder(&api), "");
    let started = Instant::now();
    mk_leader(&api).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[test]
fn a_leader_that_ends_leaves_an_empty_record_of_one_second() {
    let now: Timestamp = "2026-01-02T04:00:00Z".parse().unwrap();
    let before: Lease =
        serde_json::from_value(mk_lease("me", "2026-01-02T03:04:05.000000Z")).unwrap();
    let spec = released_lease(&before, &config(), now).spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!(spec.lease_duration_seconds, Some(1));
    assert_eq!(spec.lease_transitions, Some(3));
}
