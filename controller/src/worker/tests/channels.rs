//! Isolation by channel: each domain has its own.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, DRIVER_NAMESPACE, assert_within};

const END_OF_TIME: &str = "9999-12-31T23:59:59.000000Z";

const QUOTA: &str = "exceeded quota: leases, used: count/leases.coordination.k8s.io=10";

/// How long a released channel is not assigned.
const COOL_DOWN: Duration = Duration::from_secs(600);

fn channel(api: &FakeApi, name: &str) -> Option<u64> {
    let channel = api.read(Resource::Domains, TEAM, name, |it| {
        it["status"]["channel"].as_u64()
    });
    channel.flatten()
}

fn lease_name(number: u64) -> String {
    format!("imex-channel-{number:04}")
}

fn lease(api: &FakeApi, number: u64) -> Option<Value> {
    api.get(Resource::Leases, DRIVER_NAMESPACE, &lease_name(number))
}

fn edit_lease(api: &FakeApi, number: u64, change: impl FnOnce(&mut Value)) {
    api.edit(
        Resource::Leases,
        DRIVER_NAMESPACE,
        &lease_name(number),
        change,
    );
}

fn delete_lease(api: &FakeApi, number: u64) {
    api.delete(Resource::Leases, DRIVER_NAMESPACE, &lease_name(number));
}

fn holder(api: &FakeApi, number: u64) -> String {
    let lease = lease(api, number).unwrap_or_default();
    let holder = lease["spec"]["holderIdentity"].as_str();
    holder.unwrap_or_default().to_owned()
}

fn is_released(api: &FakeApi, number: u64) -> bool {
    lease(api, number).is_some_and(|it| !it["spec"]["renewTime"].is_null())
}

fn mk_lease(number: u64) -> Value {
    json!({
        "kind": "Lease",
        "metadata": { "name": lease_name(number), "namespace": DRIVER_NAMESPACE },
        "spec": {},
    })
}

/// Creates these domains, each after the previous one is ready.
async fn create_one_by_one(api: &FakeApi, names: &[&str]) {
    for name in names {
        api.create(mk_domain(name));
        api.until("ready", |api| is_ready(api, name)).await;
    }
}

fn has_condition(api: &FakeApi, name: &str, kind: &str) -> bool {
    let domain = domain(api, name).unwrap_or_default();
    let conditions = domain["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|it| it["type"] == kind)
}

#[tokio::test(start_paused = true)]
async fn a_domain_with_a_channel_costs_two_more_writes_at_creation_and_two_after_deletion() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    controller.settle().await;
    let id = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(
        api.calls(),
        [
            Call::AddFinalizer,
            Call::TryStatus,
            Call::CreateChannel,
            Call::WriteStatus,
            Call::CreateTemplate,
            Call::WriteStatus,
        ]
    );
    assert_eq!(channel(&api, "a"), Some(1));
    assert_eq!(reason(&api, "a"), "Admitted");
    let now = lease(&api, 1).unwrap();
    assert_eq!(now["spec"]["holderIdentity"], id);
    assert_eq!(
        now["metadata"]["labels"],
        json!({
            "resource.nvidia.com/imexChannel": "1",
            "resource.nvidia.com/computeDomain": id,
            "resource.nvidia.com/computeDomainNamespace": TEAM,
            "resource.nvidia.com/computeDomainName": "a",
        })
    );

    api.forget_requests();
    delete_domain(&api, "a");
    api.until("released", |api| is_released(api, 1)).await;
    let released = Instant::now();
    assert_eq!(lease(&api, 1).unwrap()["spec"]["leaseDurationSeconds"], 600);
    api.until("free", |api| lease(api, 1).is_none()).await;
    assert!(released.elapsed() >= COOL_DOWN);
    assert_within(COOL_DOWN + Duration::from_secs(1), released);
    api.after(Duration::from_secs(60)).await;
    assert_eq!(
        api.calls(),
        [
            Call::DeleteTemplate,
            Call::ReleaseTemplate,
            Call::RemoveFinalizer,
            Call::GetDomain,
            Call::ChangeChannel,
            Call::GetDomain,
            Call::DeleteChannel,
        ]
    );
    assert_eq!(api.event_reasons(), ["Admitted"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_isolation_no_lease_is_watched_or_written() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    create_one_by_one(&api, &["a"]).await;
    assert_eq!(api.count(Call::ListChannels), 0);
    assert_eq!(channel(&api, "a"), None);
    assert!(!api.any(Resource::Leases, |_| true));
    controller.stop().await;
}

// req: CHANNEL-6
#[tokio::test(start_paused = true)]
async fn hundreds_of_domains_at_once_get_a_channel_each_without_retries() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    controller.settle().await;
    api.set_latency(Duration::from_millis(40));
    let names = mk_names(300);
    create_domains(&api, &names);
    api.until("ready", |api| are_ready(api, &names)).await;
    let mut channels: Vec<_> = names.iter().filter_map(|it| channel(&api, it)).collect();
    channels.sort_unstable();
    assert_eq!(channels, (1..=300).collect::<Vec<_>>());
    assert_eq!((api.writes(), api.count(Call::CreateChannel)), (1_500, 300));
    assert_eq!(api.count(Call::GetChannel), 0);
    controller.stop().await;
}

// req: CHANNEL-9, CHANNEL-11
#[tokio::test(start_paused = true)]
async fn a_domain_without_a_free_channel_reports_it_and_the_oldest_gets_the_next_after_its_cool_down()
 {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 3);
    create_one_by_one(&api, &["a", "b"]).await;
    for name in ["c", "d"] {
        api.create(mk_domain(name));
        api.until("reported", |api| reason(api, name) == "NoChannelFree")
            .await;
    }
    assert!(
        message(&api, "c").starts_with("all 2 IMEX channels are in use"),
        "{}",
        message(&api, "c")
    );
    let gauges = controller.metrics();
    assert!(
        gauges.contains("imex_dra_channels{state=\"used\"} 2\n"),
        "{gauges}"
    );
    api.forget_requests();
    api.after(Duration::from_secs(3_600)).await;
    assert_eq!(api.calls(), [], "no polling");

    delete_domain(&api, "b");
    api.until("released", |api| is_released(api, 2)).await;
    let released = Instant::now();
    let gauges = controller.metrics();
    assert!(
        gauges.contains("imex_dra_channels{state=\"cooling\"} 1\n"),
        "{gauges}"
    );
    api.until("served", |api| is_ready(api, "c")).await;
    assert!(released.elapsed() >= COOL_DOWN);
    assert_within(COOL_DOWN + Duration::from_secs(1), released);
    assert_eq!(channel(&api, "c"), Some(2));
    assert_eq!(reason(&api, "d"), "NoChannelFree");
    controller.stop().await;
}

// req: CHANNEL-7
#[tokio::test(start_paused = true)]
async fn a_controller_killed_after_any_request_is_succeeded_and_assigns_one_channel() {
    let calls = [
        Call::AddFinalizer,
        Call::TryStatus,
        Call::CreateChannel,
        Call::WriteStatus,
        Call::CreateTemplate,
    ];
    for (call, fault) in calls
        .into_iter()
        .flat_map(|call| [(call, Fault::NoAnswer), (call, Fault::AnswerLost)])
    {
        let api = FakeApi::new();
        let first = Controller::start_with_channels(&api, 2_048);
        first.settle().await;
        api.break_with(Rule::once(call, fault));
        api.create(mk_domain("a"));
        api.until("in the middle", |api| api.count(call) == 1).await;
        first.kill().await;
        let second = Controller::start_with_channels(&api, 2_048);
        api.until("ready", |api| is_ready(api, "a")).await;
        api.after(COOL_DOWN * 2).await;
        assert_eq!(channel(&api, "a"), Some(1), "{call:?} {fault:?}");
        assert_eq!(api.all(Resource::Leases).len(), 1, "{call:?} {fault:?}");
        second.stop().await;
    }
}

// req: CHANNEL-9
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_shorten_the_cool_down() {
    let api = FakeApi::new();
    let first = Controller::start_with_channels(&api, 2);
    create_one_by_one(&api, &["a"]).await;
    delete_domain(&api, "a");
    api.until("released", |api| is_released(api, 1)).await;
    let released = Instant::now();
    first.kill().await;
    api.after(COOL_DOWN / 2).await;
    let second = Controller::start_with_channels(&api, 2);
    api.create(mk_domain("b"));
    api.until("ready", |api| is_ready(api, "b")).await;
    assert!(released.elapsed() >= COOL_DOWN);
    assert_within(COOL_DOWN + Duration::from_secs(1), released);
    second.stop().await;
}

// req: CHANNEL-9
#[tokio::test(start_paused = true)]
async fn the_lease_stays_while_a_claim_of_the_domain_exists() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    let id = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.create(mk_claim("claim", &id));
    delete_domain(&api, "a");
    api.until("gone", |api| domain(api, "a").is_none()).await;
    api.after(COOL_DOWN * 2).await;
    assert!(!is_released(&api, 1));
    api.delete(Resource::Claims, TEAM, "claim");
    api.until("released", |api| is_released(api, 1)).await;
    // A late claim, as from a copy of the template, takes it back.
    api.create(mk_claim("late", &id));
    api.until("taken back", |api| !is_released(api, 1)).await;
    api.delete(Resource::Claims, TEAM, "late");
    api.until("released", |api| is_released(api, 1)).await;
    api.until("free", |api| lease(api, 1).is_none()).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_lease_is_skipped_and_left_unchanged() {
    let api = FakeApi::new();
    let theirs = api.create(mk_lease(1));
    let controller = Controller::start_with_channels(&api, 3);
    create_one_by_one(&api, &["a"]).await;
    assert_eq!(channel(&api, "a"), Some(2));
    api.create(mk_domain("b"));
    api.until("reported", |api| reason(api, "b") == "NoChannelFree")
        .await;
    api.after(COOL_DOWN * 2).await;
    assert_eq!(lease(&api, 1), Some(theirs));
    delete_lease(&api, 1);
    let deleted = Instant::now();
    api.until("served", |api| is_ready(api, "b")).await;
    assert_within(COOL_DOWN, deleted);
    controller.stop().await;
}

// req: CHANNEL-10
#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_recreated_and_no_channel_is_assigned_for_a_cool_down() {
    let api = FakeApi::new();
    let first = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["a", "b"]).await;
    first.kill().await;
    delete_lease(&api, 1);
    delete_lease(&api, 2);
    api.create(mk_domain("new"));
    let second = Controller::start_with_channels(&api, 2_048);
    let is_back = |api: &FakeApi| lease(api, 1).is_some() && lease(api, 2).is_some();
    api.until("rebuilt", is_back).await;
    let rebuilt = Instant::now();
    api.until("reported", |api| {
        reason(api, "new") == "ChannelsBeingRebuilt"
    })
    .await;
    second.kill().await;
    let third = Controller::start_with_channels(&api, 2_048);
    api.until("served", |api| is_ready(api, "new")).await;
    assert!(rebuilt.elapsed() + Duration::from_secs(1) >= COOL_DOWN);
    assert_within(COOL_DOWN + Duration::from_secs(2), rebuilt);
    assert_eq!(channel(&api, "new"), Some(3));
    assert!(are_ready(&api, &["a", "b"]));
    assert!(api.event_note("ChannelRebuilt").is_some());
    third.stop().await;
}

// req: CHANNEL-10
#[tokio::test(start_paused = true)]
async fn a_lease_deleted_after_its_domain_is_recreated_and_its_channel_not_assigned() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    let id = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.create(mk_claim("claim", &id));
    delete_domain(&api, "a");
    api.until("gone", |api| domain(api, "a").is_none()).await;
    controller.settle().await;

    // A claim has the channel.
    delete_lease(&api, 1);
    api.until("there again", |api| lease(api, 1).is_some())
        .await;
    assert_eq!((holder(&api, 1), is_released(&api, 1)), (id.clone(), false));
    create_one_by_one(&api, &["b"]).await;
    assert_eq!(channel(&api, "b"), Some(2), "no wait for a cool-down");

    // The cool-down of the channel continues.
    api.delete(Resource::Claims, TEAM, "claim");
    api.until("released", |api| is_released(api, 1)).await;
    let released = Instant::now();
    api.after(COOL_DOWN / 2).await;
    delete_lease(&api, 1);
    api.until("there again", |api| is_released(api, 1)).await;
    assert_eq!(holder(&api, 1), id);
    api.until("free", |api| lease(api, 1).is_none()).await;
    assert!(released.elapsed() + Duration::from_secs(1) >= COOL_DOWN);
    assert_within(COOL_DOWN + Duration::from_secs(1), released);
    api.after(COOL_DOWN).await;
    assert!(lease(&api, 1).is_none());
    create_one_by_one(&api, &["c"]).await;
    assert_eq!(channel(&api, "c"), Some(1));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_channel_whose_lease_cannot_be_recreated_is_not_assigned() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["a"]).await;
    delete_domain(&api, "a");
    api.until("released", |api| is_released(api, 1)).await;
    api.break_with(Rule::once(Call::CreateChannel, Fault::Forbidden(QUOTA)).times(3));
    delete_lease(&api, 1);
    api.until("tried", |api| api.count(Call::CreateChannel) > 1)
        .await;
    let foreign = api.create(mk_lease(1));
    create_one_by_one(&api, &["b"]).await;
    assert_eq!(channel(&api, "b"), Some(2));
    api.forget_requests();
    api.after(COOL_DOWN).await;
    assert_eq!((api.writes(), lease(&api, 1)), (0, Some(foreign)));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_on_leases_is_reported_with_the_servers_message() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["old"]).await;
    api.break_with(Rule::always(Call::CreateChannel, Fault::Forbidden(QUOTA)));
    for name in ["new", "old"] {
        if name == "new" {
            api.create(mk_domain(name));
        } else {
            delete_lease(&api, 1);
        }
        api.until("reported", |api| reason(api, name) == "ChannelRefused")
            .await;
        let message = message(&api, name);
        assert!(message.contains(QUOTA), "{message}");
    }
    assert!(api.event_note("ChannelRefused").is_some());
    api.until("reported", |api| {
        reason(api, "new") == "ChannelsBeingRebuilt"
    })
    .await;
    api.forget_requests();
    api.after(Duration::from_secs(600)).await;
    let tried = api.count(Call::CreateChannel);
    assert!((10..=20).contains(&tried), "{tried} attempts");
    assert_eq!(api.writes(), tried, "nothing else is written");
    assert_eq!(api.event_note("ReconcileFailed"), None);
    api.heal();
    let healed = Instant::now();
    api.until("ready", |api| is_ready(api, "old")).await;
    assert_within(Duration::from_secs(75), healed);
    api.until("ready", |api| is_ready(api, "new")).await;
    assert_eq!(
        (channel(&api, "old"), channel(&api, "new")),
        (Some(1), Some(2))
    );
    controller.stop().await;
}

// req: CHANNEL-12
#[tokio::test(start_paused = true)]
async fn of_two_domains_with_one_channel_the_older_keeps_it_and_the_other_reports_the_conflict() {
    let api = FakeApi::new();
    let mut forged = mk_domain("forged");
    let id = uid(&api.create(mk_domain("first")));
    forged["status"] = json!({ "status": "NotReady", "channel": 1 });
    let controller = Controller::start_with_channels(&api, 2_048);
    api.until("ready", |api| is_ready(api, "first")).await;
    let forged_id = uid(&api.create(forged));
    api.until("reported", |api| {
        reason(api, "forged") == "ChannelNotConfirmed"
    })
    .await;
    let reported = message(&api, "forged");
    for part in [&id, &forged_id, "team/first", "team/forged"] {
        assert!(reported.contains(part), "{reported}");
    }
    assert_eq!(template(&api, "forged"), None);
    // The same without Leases.
    delete_lease(&api, 1);
    api.until("rebuilt", |api| holder(api, 1) == id).await;
    assert!(is_ready(&api, "first"));
    // Its deletion leaves the other one its channel.
    delete_domain(&api, "forged");
    api.until("gone", |api| domain(api, "forged").is_none())
        .await;
    api.after(COOL_DOWN * 2).await;
    assert_eq!(holder(&api, 1), id);
    assert_eq!(channel(&api, "first"), Some(1));
    controller.stop().await;
}

// req: CHANNEL-12
#[tokio::test(start_paused = true)]
async fn a_channel_that_nodes_do_not_have_is_not_confirmed() {
    let api = FakeApi::new();
    let mut forged = mk_domain("forged");
    forged["status"] = json!({ "status": "NotReady", "channel": 9 });
    api.create(forged);
    let controller = Controller::start_with_channels(&api, 9);
    api.until("reported", |api| {
        reason(api, "forged") == "ChannelNotConfirmed"
    })
    .await;
    assert!(!api.any(Resource::Leases, |_| true));
    controller.stop().await;
}

// req: CHANNEL-13
#[tokio::test(start_paused = true)]
async fn domains_that_were_ready_before_isolation_keep_channel_0_and_report_it() {
    let api = FakeApi::new();
    let before = Controller::start(&api);
    create_one_by_one(&api, &["old"]).await;
    before.stop().await;
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["new"]).await;
    api.until("reported", |api| has_condition(api, "old", "NotIsolated"))
        .await;
    assert_eq!(
        (channel(&api, "old"), channel(&api, "new")),
        (Some(0), Some(1))
    );
    assert!(is_ready(&api, "old"));
    assert_eq!(api.all(Resource::Leases).len(), 1);
    controller.stop().await;

    // After switching back, numbers and Leases stay.
    api.forget_requests();
    let back = Controller::start(&api);
    back.settle().await;
    edit_template(&api, "new", alter);
    api.until("repaired", |api| api.count(Call::CreateTemplate) == 1)
        .await;
    api.until("ready", |api| is_ready(api, "new")).await;
    let reported = |api: &FakeApi| has_condition(api, "old", "NotIsolated");
    api.until("no longer reported", |api| !reported(api)).await;
    assert_eq!(
        (channel(&api, "old"), channel(&api, "new")),
        (Some(0), Some(1))
    );
    assert_eq!(api.count(Call::ListChannels), 0);
    assert_eq!(holder(&api, 1), uid(&domain(&api, "new").unwrap()));
    back.stop().await;
}

#[tokio::test(start_paused = true)]
async fn under_a_crd_without_the_field_nothing_is_assigned_until_it_is_replaced() {
    let api = FakeApi::new();
    let before = Controller::start(&api);
    create_one_by_one(&api, &["old"]).await;
    before.stop().await;
    api.set_crd_without_channel(true);
    let controller = Controller::start_with_channels(&api, 2_048);
    controller.settle().await;
    let names = mk_names(20);
    create_domains(&api, &names);
    let reported = |api: &FakeApi, name: &String| reason(api, name) == "ChannelFieldMissing";
    api.until("reported", |api| {
        names.iter().all(|name| reported(api, name))
    })
    .await;
    assert!(api.count(Call::TryStatus) <= 16, "not for every domain");
    assert!(is_ready(&api, "old"), "its pods may run");
    assert!(!api.any(Resource::Leases, |_| true));
    api.set_crd_without_channel(false);
    let replaced = Instant::now();
    api.until("ready", |api| are_ready(api, &names)).await;
    assert_within(Duration::from_secs(30), replaced);
    api.until("reported", |api| channel(api, "old") == Some(0))
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_manual_edit_of_a_lease_has_a_defined_outcome() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    let id = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;

    // The label is restored.
    edit_lease(&api, 1, |it| it["metadata"]["labels"] = json!({}));
    let is_labelled = |api: &FakeApi| {
        let lease = lease(api, 1).unwrap_or_default();
        !lease["metadata"]["labels"]["resource.nvidia.com/imexChannel"].is_null()
    };
    api.until("labelled", is_labelled).await;
    assert!(is_ready(&api, "a"));

    // The release of a channel in use is reverted, whatever its time.
    for time in ["1970-01-01T00:00:00.000000Z", "9000-01-01T00:00:00.000000Z"] {
        edit_lease(&api, 1, |it| it["spec"]["renewTime"] = json!(time));
        api.until("taken back", |api| !is_released(api, 1)).await;
        assert!(is_ready(&api, "a"), "{time}");
    }

    // Without holder, it belongs to no domain until it is deleted.
    edit_lease(&api, 1, |it| it["spec"]["holderIdentity"] = json!(""));
    api.until("reported", |api| reason(api, "a") == "ChannelNotConfirmed")
        .await;
    delete_lease(&api, 1);
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_eq!(holder(&api, 1), id);

    // With a nonexistent holder, it is released and deleted as for a deleted domain.
    edit_lease(&api, 1, |it| it["spec"]["holderIdentity"] = json!("nobody"));
    api.until("reported", |api| reason(api, "a") == "ChannelNotConfirmed")
        .await;
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_eq!(holder(&api, 1), id);

    // A time that Kubernetes accepts, but its client cannot decode, is removed.
    edit_lease(&api, 1, |it| {
        it["spec"]["renewTime"] = json!(END_OF_TIME);
        it["spec"]["acquireTime"] = json!(END_OF_TIME);
    });
    api.until("taken back", |api| !is_released(api, 1)).await;
    assert!(lease(&api, 1).unwrap()["spec"]["acquireTime"].is_null());
    assert!(is_ready(&api, "a"));

    // Without annotations, the domain is looked up.
    edit_lease(&api, 1, |it| it["metadata"]["annotations"] = json!({}));
    delete_domain(&api, "a");
    api.until("released", |api| is_released(api, 1)).await;
    let is_readable = |api: &FakeApi| lease(api, 1).unwrap()["spec"]["renewTime"] != END_OF_TIME;
    edit_lease(&api, 1, |it| it["spec"]["renewTime"] = json!(END_OF_TIME));
    api.until("released anew", is_readable).await;
    // A release in the future counts as now.
    edit_lease(&api, 1, |it| {
        it["spec"]["renewTime"] = json!("9000-01-01T00:00:00.000000Z");
    });
    let edited = Instant::now();
    api.until("free", |api| lease(api, 1).is_none()).await;
    assert!(edited.elapsed() >= COOL_DOWN);
    assert_within(COOL_DOWN + Duration::from_secs(1), edited);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_lease_of_another_controller_is_released() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    let id = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    let mut late = lease(&api, 1).unwrap();
    late["metadata"]["name"] = json!(lease_name(7));
    api.create(late);
    api.until("released", |api| is_released(api, 7)).await;
    api.until("free", |api| lease(api, 7).is_none()).await;
    assert_eq!((channel(&api, "a"), holder(&api, 1)), (Some(1), id));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_assigned_before_the_leases_are_listed() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::ListChannels, Fault::Unavailable));
    let controller = Controller::start_with_channels(&api, 2_048);
    api.create(mk_domain("a"));
    api.until("tried", |api| api.count(Call::ListChannels) > 3)
        .await;
    assert_eq!(api.writes(), 0);
    let unmet = format!("{:?}", controller.readiness.unmet());
    assert!(unmet.contains("channels"), "{unmet}");
    api.heal();
    api.until("ready", |api| is_ready(api, "a")).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_recreated_does_not_delay_a_deletion() {
    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["a"]).await;
    api.break_with(Rule::always(Call::CreateChannel, Fault::Forbidden("no")));
    delete_lease(&api, 1);
    delete_domain(&api, "a");
    api.until("gone", |api| domain(api, "a").is_none()).await;
    controller.stop().await;
}

// req: CHANNEL-7
#[tokio::test(start_paused = true)]
async fn two_leaders_one_after_the_other_give_each_domain_one_channel() {
    let api = FakeApi::new();
    let first = Controller::start_candidate_with_channels(&api, "first", 2_048);
    let names = mk_names(60);
    api.set_latency(Duration::from_millis(40));
    create_domains(&api, &names);
    api.until("half of it", |api| api.count(Call::CreateChannel) > 30)
        .await;
    let second = Controller::start_candidate_with_channels(&api, "second", 2_048);
    api.edit(Resource::Leases, DRIVER_NAMESPACE, "lease", |lease| {
        lease["spec"]["holderIdentity"] = json!("");
    });
    first.kill().await;
    api.until("ready", |api| are_ready(api, &names)).await;
    api.after(COOL_DOWN * 2).await;
    let mut channels: Vec<_> = names.iter().filter_map(|it| channel(&api, it)).collect();
    channels.sort_unstable();
    channels.dedup();
    assert_eq!(channels.len(), 60);
    let is_channel = |it: &&Value| it["metadata"]["name"] != "lease";
    assert_eq!(
        api.all(Resource::Leases).iter().filter(is_channel).count(),
        60
    );
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn all_2047_channels_are_assigned_and_the_next_domain_waits() {
    const COUNT: usize = 2_047;

    let api = FakeApi::new();
    let controller = Controller::start_with_channels(&api, 2_048);
    controller.settle().await;
    let names = mk_names(COUNT + 1);
    let (last, names) = names.split_last().unwrap();
    create_domains(&api, names);
    api.until("the last is given", |api| lease(api, 2_047).is_some())
        .await;
    api.until("ready", |api| are_ready(api, names)).await;
    api.create(mk_domain(last));
    api.until("reported", |api| reason(api, last) == "NoChannelFree")
        .await;
    let channels = names.iter().filter_map(|name| channel(&api, name));
    let channels: std::collections::BTreeSet<_> = channels.collect();
    assert_eq!(channels, (1..=2_047).collect());
    assert_eq!(api.count(Call::CreateChannel), COUNT, "none is tried twice");
    let gone = channel(&api, "d1000");
    delete_domain(&api, "d1000");
    api.until("served", |api| is_ready(api, last)).await;
    assert_eq!(channel(&api, last), gone);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_domains_without_isolation_are_reported_as_sharing_a_clique() {
    let api = FakeApi::new();
    let before = Controller::start(&api);
    create_one_by_one(&api, &["old", "older"]).await;
    before.stop().await;
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["new", "newer"]).await;
    for name in ["old", "older", "new", "newer"] {
        let id = uid(&domain(&api, name).unwrap());
        create_prepared(&api, &format!("of-{name}"), &id, "x.1");
    }
    let reported = |api: &FakeApi| {
        let reasons = api.event_reasons();
        reasons.iter().filter(|it| *it == "CliqueShared").count()
    };
    api.until("reported", |api| reported(api) == 2).await;
    api.after(Duration::from_secs(300)).await;
    assert_eq!(reported(&api), 2);
    let note = api.event_note("CliqueShared").unwrap();
    assert!(note.contains("old") && !note.contains("new"), "{note}");
    controller.stop().await;
}

const GROUP_POOL: &str = "clique-aaaaaaaa-0000-0000-0000-000000000001.7";

const GROUP_LEASE: &str = "imex-channels-of-groups";

fn group_lease(api: &FakeApi) -> Option<Value> {
    api.get(Resource::Leases, DRIVER_NAMESPACE, GROUP_LEASE)
}

fn mk_group_lease() -> Value {
    json!({
        "kind": "Lease",
        "metadata": { "name": GROUP_LEASE, "namespace": DRIVER_NAMESPACE },
        "spec": { "holderIdentity": "group claims" },
    })
}

fn mk_pool_slice() -> Value {
    json!({
        "kind": "ResourceSlice", "metadata": { "name": "pool" },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeSelector": {}, "devices": [],
            "pool": { "name": GROUP_POOL, "generation": 1, "resourceSliceCount": 1 },
        },
    })
}

fn mk_group_claim() -> Value {
    json!({
        "kind": "ResourceClaim", "metadata": { "name": "gang", "namespace": TEAM }, "spec": {},
        "status": { "allocation": { "devices": { "results": [
            { "driver": "compute-domain.nvidia.com", "pool": GROUP_POOL, "device": "channel-1" },
        ] } } },
    })
}

// req: CHANNEL-19
#[tokio::test(start_paused = true)]
async fn channels_of_groups_are_assigned_to_domains_ten_minutes_after_the_last_pool_and_claim() {
    let api = FakeApi::new();
    api.create(mk_group_lease());
    api.create(mk_pool_slice());
    api.create(mk_group_claim());
    let first = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["a"]).await;
    assert_eq!(channel(&api, "a"), Some(128), "there is a pool");

    // The pool and the Lease are deleted manually while a claim has a channel.
    api.delete(Resource::Slices, "", "pool");
    api.delete(Resource::Leases, DRIVER_NAMESPACE, GROUP_LEASE);
    api.until("there again", |api| group_lease(api).is_some())
        .await;
    api.after(COOL_DOWN * 2).await;
    create_one_by_one(&api, &["b"]).await;
    assert_eq!(channel(&api, "b"), Some(129), "there is a claim");

    api.delete(Resource::Claims, TEAM, "gang");
    let is_released = |api: &FakeApi| {
        let lease = group_lease(api).unwrap_or_default();
        !lease["spec"]["renewTime"].is_null()
    };
    api.until("released", is_released).await;
    let released = Instant::now();
    first.kill().await;
    let second = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["c"]).await;
    assert_eq!(channel(&api, "c"), Some(130), "they cool down");
    api.until("gone", |api| group_lease(api).is_none()).await;
    assert!(released.elapsed() >= COOL_DOWN);
    assert_within(COOL_DOWN + Duration::from_secs(61), released);
    api.after(Duration::from_secs(1)).await;
    create_one_by_one(&api, &["d"]).await;
    assert_eq!(channel(&api, "d"), Some(1));
    api.forget_requests();
    api.after(COOL_DOWN).await;
    assert_eq!(api.calls(), [], "no more checks");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn channels_of_groups_stay_reserved_for_pools_without_lease_and_after_failed_checks() {
    let api = FakeApi::new();
    api.create(mk_pool_slice());
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["a"]).await;
    assert_eq!(channel(&api, "a"), Some(128));
    assert!(group_lease(&api).is_some());
    controller.stop().await;

    let api = FakeApi::new();
    api.break_with(Rule::always(Call::ListSlices, Fault::Forbidden("no")));
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["a"]).await;
    assert_eq!(channel(&api, "a"), Some(128));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_reserves_the_channels_of_groups_for_a_minute() {
    let api = FakeApi::new();
    api.break_with(Rule::once(Call::ListSlices, Fault::Unavailable));
    let controller = Controller::start_with_channels(&api, 2_048);
    create_one_by_one(&api, &["a"]).await;
    assert_eq!(channel(&api, "a"), Some(128));
    api.after(Duration::from_secs(61)).await;
    create_one_by_one(&api, &["b"]).await;
    assert_eq!(channel(&api, "b"), Some(1));
    assert!(group_lease(&api).is_none());
    controller.stop().await;
}
