//! Domains that hold prepared claims in one clique, and domains whose claims are in several.

use std::time::Duration;

use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::Controller;
use crate::testing::objects::*;
use crate::worker::claim_cliques::{LONGEST_BURST, PACE, QUIET, RETRY};

const SECOND: Duration = Duration::from_secs(1);
const NOT_QUIET: Duration = QUIET.saturating_sub(SECOND);

/// Starts a controller with ready domains of these names. Returns their UIDs, too.
async fn fixture<const N: usize>(names: [&str; N]) -> (FakeApi, Controller, [String; N]) {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let uids = names.map(|name| uid(&api.create(mk_domain(name))));
    api.until("ready", |api| are_ready(api, &names)).await;
    api.forget_requests();
    (api, controller, uids)
}

/// The events with this reason, by name: the domain's name and the note.
fn events(api: &FakeApi, reason: &str) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let events = api.all(Resource::Events).into_iter();
    let events = events.filter(|event| event["reason"] == reason);
    let mut events: Vec<_> = events
        .map(|event| (text(&event["regarding"]["name"]), text(&event["note"])))
        .collect();
    events.sort();
    events
}

fn lists(api: &FakeApi) -> usize {
    api.count(Call::ListClaimsOfDomain)
}

/// Waits until the metrics have these values.
async fn until_counted(api: &FakeApi, controller: &Controller, shared: usize, split: usize) {
    let lines = [
        format!("\nimex_dra_shared_cliques {shared}\n"),
        format!("\nimex_dra_split_domains {split}\n"),
    ];
    api.until(&lines.concat(), |_| {
        let metrics = controller.metrics();
        lines.iter().all(|line| metrics.contains(line))
    })
    .await;
}

// req: CHANNEL-20
#[tokio::test(start_paused = true)]
async fn domains_that_share_a_clique_are_both_reported_once_and_counted() {
    let (api, controller, [a, b]) = fixture(["a", "b"]).await;
    create_prepared(&api, "of-a", &a, "x.1");
    create_prepared(&api, "of-b", &b, "x.1");
    api.until("reported", |api| events(api, "CliqueShared").len() == 2)
        .await;
    let reported = events(&api, "CliqueShared");
    assert_eq!((&*reported[0].0, &*reported[1].0), ("a", "b"));
    assert_eq!(
        reported[0].1,
        "this ComputeDomain is not isolated from team/b: they share an IMEX channel in the same NVLink clique (x.1), because of imex.isolation=none or the condition NotIsolated; to isolate them, run them one after the other, or in different cliques with a node selector"
    );
    until_counted(&api, &controller, 1, 0).await;
    let events_posted = api.count(Call::PostEvent);
    assert_eq!((lists(&api), events_posted, api.writes()), (2, 2, 0));

    // A further claim of one of them causes a list, but no event.
    create_prepared(&api, "of-b-2", &b, "x.1");
    api.after(LONGEST_BURST * 2).await;
    assert_eq!((lists(&api), events(&api, "CliqueShared").len()), (3, 2));
    controller.stop().await;
}

// req: CHANNEL-20
#[tokio::test(start_paused = true)]
async fn a_domain_with_pods_in_two_cliques_is_reported_and_counted() {
    let (api, controller, [a]) = fixture(["a"]).await;
    create_prepared(&api, "one", &a, "x.1");
    create_prepared(&api, "two", &a, "x.2");
    api.until("reported", |api| events(api, "CliquesSplit").len() == 1)
        .await;
    assert_eq!(
        events(&api, "CliquesSplit")[0].1,
        "the ComputeDomain has prepared claims in 2 NVLink cliques: x.1, x.2; pods in different cliques cannot share GPU memory over IMEX; if the pods need to share memory, keep them in one clique with a node selector"
    );
    until_counted(&api, &controller, 0, 1).await;
    api.delete(Resource::Claims, TEAM, "two");
    until_counted(&api, &controller, 0, 0).await;
    assert_eq!((lists(&api), api.writes()), (2, 0));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_reports_of_a_domain_costs_one_list_of_its_claims_alone() {
    let (api, controller, [a, b]) = fixture(["a", "b"]).await;
    for number in 0..600 {
        create_prepared(&api, &format!("a-{number}"), &a, "x.1");
    }
    api.create(mk_claim("of-b", &b));
    // Within five seconds, as the nodes write them.
    api.after(SECOND * 5).await;
    report(&api, "a-0", &a, "x.2");
    api.after(NOT_QUIET).await;
    assert_eq!(api.calls(), [], "not while reports come");
    api.after(LONGEST_BURST * 3).await;
    // Two pages.
    assert_eq!(api.calls(), [Call::ListClaimsOfDomain; 2]);
    assert_eq!(events(&api, "CliquesSplit").len(), 1);
    assert!(api.requests().iter().all(|it| it.namespace == TEAM));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endless_reports_cost_one_list_a_minute() {
    let (api, controller, [a]) = fixture(["a"]).await;
    for number in 0..60 {
        create_prepared(&api, &format!("a-{number}"), &a, "x.1");
        api.after(SECOND * 5).await;
    }
    // In five minutes.
    assert!((4..=5).contains(&lists(&api)), "{}", lists(&api));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_without_a_report_cost_nothing() {
    let (api, controller, [a]) = fixture(["a"]).await;
    for number in 0..20 {
        let claim = format!("a-{number}");
        api.create(mk_claim(&claim, &a));
        allocate(&api, &claim);
    }
    api.delete(Resource::Claims, TEAM, "a-0");
    api.expire_watches();
    api.after(LONGEST_BURST * 3).await;
    assert_eq!(lists(&api), 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_sharing_needs_no_list_and_new_sharing_is_reported_again() {
    let (api, controller, [a, b, c]) = fixture(["a", "b", "c"]).await;
    create_prepared(&api, "of-a", &a, "x.1");
    create_prepared(&api, "of-b", &b, "x.1");
    until_counted(&api, &controller, 1, 0).await;
    api.forget_requests();
    api.delete(Resource::Claims, TEAM, "of-b");
    until_counted(&api, &controller, 0, 0).await;
    api.after(LONGEST_BURST * 2).await;
    assert_eq!(api.calls(), []);

    create_prepared(&api, "of-c", &c, "x.1");
    until_counted(&api, &controller, 1, 0).await;
    api.until("reported", |api| events(api, "CliqueShared").len() == 4)
        .await;
    // A deleted domain shares nothing, though its pods may still run.
    delete_domain(&api, "a");
    until_counted(&api, &controller, 0, 0).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deallocated_claims_and_claims_deleted_while_the_watch_is_down_no_longer_count() {
    let (api, controller, [a, b]) = fixture(["a", "b"]).await;
    create_prepared(&api, "of-a", &a, "x.1");
    for (claim, clique) in [("b-1", "x.1"), ("b-2", "x.2")] {
        create_prepared(&api, claim, &b, clique);
    }
    until_counted(&api, &controller, 1, 1).await;
    // The API server removes the report, and with it its manager.
    api.edit(Resource::Claims, TEAM, "b-1", |claim| {
        claim["status"] = serde_json::json!({});
        claim["metadata"]["managedFields"] = serde_json::json!([]);
    });
    until_counted(&api, &controller, 0, 0).await;
    report(&api, "b-1", &b, "x.1");
    until_counted(&api, &controller, 1, 1).await;
    api.delete(Resource::Claims, TEAM, "of-a");
    api.expire_watches();
    until_counted(&api, &controller, 0, 1).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_with_only_the_label_of_a_domain_are_ignored() {
    let (api, controller, [a, b]) = fixture(["a", "b"]).await;
    create_prepared(&api, "of-a", &a, "x.1");
    create_prepared(&api, "of-b", &b, "x.2");
    // Its label is b's, and its config a's.
    api.create(mk_claim("mixed", &b));
    report(&api, "mixed", &a, "x.1");
    api.create(in_namespace("elsewhere", mk_claim("elsewhere", &b)));
    create_prepared(&api, "of-nobody", "nobody", "x.1");
    api.after(LONGEST_BURST * 2).await;
    until_counted(&api, &controller, 0, 0).await;
    assert_eq!((lists(&api), api.count(Call::PostEvent)), (2, 0));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_claims_of_domains_in_use_are_listed_one_domain_at_a_time() {
    let (api, controller, [a]) = fixture(["a"]).await;
    let names = mk_names(100);
    create_domains(&api, &names);
    api.until("ready", |api| are_ready(api, &names)).await;
    controller.kill().await;
    // Half of them are in use, two of these in one clique.
    for name in names.iter().step_by(2) {
        let uid = uid(&domain(&api, name).unwrap());
        create_prepared(&api, &format!("of-{name}"), &uid, &format!("clique-{name}"));
    }
    create_prepared(&api, "of-a", &a, "clique-d0");

    let controller = Controller::start(&api);
    controller.settle().await;
    let started = Instant::now();
    until_counted(&api, &controller, 1, 0).await;
    api.after(LONGEST_BURST * 2).await;
    let times = api.times(Call::ListClaimsOfDomain);
    assert_eq!(times.len(), 51);
    assert!(times[0] - started >= NOT_QUIET);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= PACE, "{:?}", pair[1] - pair[0]);
    }
    assert_eq!(events(&api, "CliqueShared").len(), 2);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_retried_and_delays_no_other_domain() {
    let (api, controller, [a, b]) = fixture(["a", "b"]).await;
    let forbidden = Fault::Forbidden("resourceclaims is forbidden");
    api.break_with(Rule::once(Call::ListClaimsOfDomain, forbidden));
    create_prepared(&api, "a-1", &a, "x.1");
    api.after(SECOND).await;
    for (claim, clique) in [("b-1", "x.1"), ("b-2", "x.2")] {
        create_prepared(&api, claim, &b, clique);
    }
    api.until("b is counted", |_| {
        controller
            .metrics()
            .contains("\nimex_dra_split_domains 1\n")
    })
    .await;
    assert_eq!(lists(&api), 2, "a's has failed");
    until_counted(&api, &controller, 1, 1).await;
    let times = api.times(Call::ListClaimsOfDomain);
    assert!(times[2] - times[0] >= RETRY);
    assert_eq!(times.len(), 3);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_lists_and_counts() {
    let api = FakeApi::new();
    let first = Controller::start_candidate(&api, "first");
    api.until("it leads", |api| api.count(Call::CreateLease) == 1)
        .await;
    let second = Controller::start_candidate(&api, "second");
    for name in ["a", "b"] {
        let uid = uid(&api.create(mk_domain(name)));
        create_prepared(&api, &format!("of-{name}"), &uid, "x.1");
    }
    until_counted(&api, &first, 1, 0).await;
    until_counted(&api, &second, 0, 0).await;
    assert_eq!(lists(&api), 2);
    // It cannot renew its lease, and no longer counts.
    api.break_with(Rule::always(Call::UpdateLease, Fault::Unavailable));
    until_counted(&api, &first, 0, 0).await;
    first.stop().await;
    api.heal();
    until_counted(&api, &second, 1, 0).await;
    assert_eq!(lists(&api), 4);
    second.stop().await;
}
