//! Several replicas.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, DRIVER_NAMESPACE, assert_within};

fn holder(api: &FakeApi) -> String {
    let lease = api
        .get(Resource::Leases, DRIVER_NAMESPACE, "lease")
        .unwrap_or_default();
    lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

async fn elected(api: &FakeApi) -> (Controller, Controller) {
    let first = Controller::start_candidate(api, "first");
    api.until("the first leads", |api| holder(api) == "first")
        .await;
    let second = Controller::start_candidate(api, "second");
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    (first, second)
}

// req: CD-25
#[tokio::test(start_paused = true)]
async fn when_the_leader_ends_another_replica_takes_over_after_one_pause() {
    let api = FakeApi::new();
    let (first, second) = elected(&api).await;
    assert_eq!(api.writes(), 3);
    assert!(first.metrics().contains("\nimex_dra_leader 1\n"));
    assert!(second.metrics().contains("\nimex_dra_leader 0\n"));
    assert_eq!(api.count(Call::ListDomains), 1);
    let ended = Instant::now();
    let took = first.stop().await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    api.create(mk_domain("b"));
    api.until("ready", |api| is_ready(api, "b")).await;
    assert_within(Duration::from_secs(3), ended);
    assert_eq!(holder(&api), "second");
    second.stop().await;
}

// req: CD-25
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_killed_is_replaced_after_its_lease_and_one_pause() {
    let api = FakeApi::new();
    let (first, second) = elected(&api).await;
    first.kill().await;
    let killed = Instant::now();
    api.create(mk_domain("b"));
    api.until("ready", |api| is_ready(api, "b")).await;
    assert_within(Duration::from_secs(15 + 2), killed);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_lost_its_lease_stops_watching_and_drops_its_state() {
    let api = FakeApi::new();
    api.create(mk_foreign_template("a-channel"));
    api.create(mk_domain("a"));
    let controller = Controller::start_candidate(&api, "me");
    api.until("rejected", |api| reason(api, "a") == "TemplateNameTaken")
        .await;
    api.break_with(Rule::always(Call::WatchClaims, Fault::Unavailable));
    api.expire_watches();
    let is_unready = |_: &FakeApi| !controller.readiness.unmet().is_empty();
    api.until("not ready", is_unready).await;
    api.edit(Resource::Leases, DRIVER_NAMESPACE, "lease", |lease| {
        lease["spec"]["holderIdentity"] = json!("another");
    });
    let follows = |_: &FakeApi| controller.metrics().contains("\nimex_dra_leader 0\n");
    api.until("it leads no more", follows).await;
    assert_eq!(api.open_watches(Call::WatchDomains), 0);
    assert_eq!(
        controller.readiness.unmet(),
        [],
        "for work that it no longer does"
    );
    api.heal();
    // The other leader finishes the domain and stops.
    strip_finalizers(&api, Resource::Domains, "a");
    delete_domain(&api, "a");
    api.edit(Resource::Leases, DRIVER_NAMESPACE, "lease", |lease| {
        lease["spec"]["holderIdentity"] = json!("");
    });
    api.create(mk_domain("b"));
    api.until("ready", |api| is_ready(api, "b")).await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(api.open_watches(Call::WatchDomains), 1);
    assert_eq!(
        api.open_watches(Call::WatchOtherTemplates),
        0,
        "no domain waits for a name"
    );
    controller.stop().await;
}

// req: CD-31
#[tokio::test(start_paused = true)]
async fn after_a_restore_of_etcd_the_leader_starts_over_and_reports_it_once() {
    // It notices the restore when it renews, or after an outage in which it lost the lease.
    for outage in [Duration::ZERO, Duration::from_secs(60)] {
        let api = FakeApi::new();
        let (first, second) = elected(&api).await;
        let snapshot = api.snapshot();
        for name in ["b", "c", "d"] {
            api.create(mk_domain(name));
            api.until("ready", |api| is_ready(api, name)).await;
        }
        api.after(Duration::from_secs(10)).await;
        api.restore(snapshot);
        api.set_down(true);
        api.after(outage).await;
        api.set_down(false);
        let restored = Instant::now();
        api.create(mk_domain("e"));
        api.until("ready", |api| is_ready(api, "e")).await;
        assert_within(Duration::from_secs(20), restored);
        delete_domain(&api, "a");
        api.until("gone", |api| domain(api, "a").is_none()).await;
        api.after(Duration::from_secs(300)).await;
        assert!(is_ready(&api, "e"));
        let events = api.event_reasons();
        let reported = events.iter().filter(|reason| *reason == "HistoryLost");
        assert_eq!(reported.count(), 1, "{outage:?} {events:?}");
        first.stop().await;
        second.stop().await;
    }
}
