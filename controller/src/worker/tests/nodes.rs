//! The nodes in the status of a domain, in the driver-managed mode.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::nodes::*;
use crate::testing::objects::*;
use crate::testing::{Controller, DRIVER_NAMESPACE, assert_within};
use crate::worker::claim_cliques::{LONGEST_BURST, RETRY};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than any delay, except after a failed list.
const LONG: Duration = LONGEST_BURST.saturating_mul(2);

/// A domain that is Ready with this many nodes.
fn mk_domain_of(name: &str, num_nodes: usize) -> Value {
    let mut domain = mk_domain(name);
    domain["spec"]["numNodes"] = json!(num_nodes);
    domain
}

/// A cluster with this many nodes of one clique, a controller, and admitted domains of these names that want this many
/// nodes. Returns their UIDs, too.
async fn fixture<const N: usize>(
    nodes: usize,
    domains: [(&str, usize); N],
) -> (FakeApi, Controller, [String; N]) {
    let api = FakeApi::new();
    create_nodes(&api, nodes);
    let controller = Controller::start_driver_managed(&api);
    controller.settle().await;
    let uids = domains.map(|(name, wanted)| uid(&api.create(mk_domain_of(name, wanted))));
    api.until("admitted, and all nodes members", |api| {
        let members = api.get(Resource::Cliques, DRIVER_NAMESPACE, CLIQUE);
        let members = members.unwrap_or_default()["daemons"]
            .as_array()
            .map_or(0, Vec::len);
        let admitted = |name| reason(api, name) == "Admitted" && template(api, name).is_some();
        members == nodes && domains.iter().all(|(name, _)| admitted(name))
    })
    .await;
    api.after(SECOND).await;
    api.forget_requests();
    (api, controller, uids)
}

/// The condition about nodes.
fn nodes_ready(api: &FakeApi, name: &str) -> Value {
    let domain = domain(api, name).unwrap();
    let mut conditions = domain["status"]["conditions"].as_array().unwrap().iter();
    conditions
        .find(|it| it["type"] == "NodesReady")
        .unwrap()
        .clone()
}

// req: MODE-21, MODE-22
#[tokio::test(start_paused = true)]
async fn a_domain_is_admitted_at_once_and_ready_when_num_nodes_have_its_claims() {
    let (api, controller, [a]) = fixture(2, [("a", 2)]).await;
    assert!(!is_ready(&api, "a"));
    assert!(template(&api, "a").is_some(), "pods can start");
    assert_eq!(nodes_ready(&api, "a")["reason"], "NodesMissing");
    create_allocated(&api, "one", &a, "n1");
    api.until("one node", |api| {
        nodes_of(api, "a") == [is("n1", "10.0.0.1", 0, "Ready")]
    })
    .await;
    assert!(!is_ready(&api, "a"));
    let allocated = Instant::now();
    create_allocated(&api, "two", &a, "n2");
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_within(SECOND * 2, allocated);
    let both = [
        is("n1", "10.0.0.1", 0, "Ready"),
        is("n2", "10.0.0.2", 1, "Ready"),
    ];
    assert_eq!(nodes_of(&api, "a"), both);
    assert_eq!(nodes_ready(&api, "a")["status"], "True");
    // It was admitted and reported once.
    let events = api.all(Resource::Events).into_iter();
    assert_eq!(events.filter(|it| it["reason"] == "Admitted").count(), 1);
    controller.stop().await;
}

// req: MODE-23
#[tokio::test(start_paused = true)]
async fn a_burst_of_eighteen_claims_costs_one_list_and_one_write() {
    let (api, controller, [a]) = fixture(18, [("a", 18)]).await;
    for number in 1..=18 {
        let claim = format!("claim-{number}");
        create_allocated(&api, &claim, &a, &format!("n{number}"));
        api.after(Duration::from_millis(50)).await;
    }
    api.until("ready", |api| is_ready(api, "a")).await;
    api.after(LONG).await;
    assert_eq!(nodes_of(&api, "a").len(), 18);
    assert_eq!(api.calls(), [Call::ListClaimsOfDomain, Call::WriteStatus]);
    // The nodes' reports about them are not urgent.
    for number in 1..=18 {
        report(&api, &format!("claim-{number}"), &a, CLIQUE);
        api.after(SECOND * 2).await;
    }
    api.after(LONG).await;
    let calls = [
        Call::ListClaimsOfDomain,
        Call::WriteStatus,
        Call::ListClaimsOfDomain,
    ];
    assert_eq!(api.calls(), calls);
    controller.stop().await;
}

// req: MODE-23
#[tokio::test(start_paused = true)]
async fn a_daemon_that_becomes_unready_affects_only_the_domains_of_its_node() {
    let domains = [("a", 1), ("b", 0), ("c", 0), ("idle", 0)];
    let (api, controller, [a, b, c, _]) = fixture(2, domains).await;
    for (claim, uid, node) in [
        ("a1", &a, "n1"),
        ("a2", &a, "n2"),
        ("b1", &b, "n1"),
        ("c2", &c, "n2"),
    ] {
        create_allocated(&api, claim, uid, node);
    }
    api.until("known", |api| {
        let counts = ["a", "b", "c"].map(|name| nodes_of(api, name).len());
        counts == [2, 1, 1] && are_ready(api, &["a", "b", "c", "idle"])
    })
    .await;
    api.forget_requests();
    let failed = Instant::now();
    set_ready(&api, "n1", "False");
    api.until("not ready", |api| {
        !is_ready(api, "a") && !is_ready(api, "b")
    })
    .await;
    assert_within(SECOND, failed);
    api.after(LONG).await;
    assert!(is_ready(&api, "c") && is_ready(&api, "idle"));
    assert_eq!(nodes_ready(&api, "b")["reason"], "NodesNotReady");
    assert_eq!(nodes_of(&api, "b"), [is("n1", "10.0.0.1", 0, "NotReady")]);
    let calls = [Call::ReplaceClique, Call::WriteStatus, Call::WriteStatus];
    assert_eq!(api.calls(), calls);
    set_ready(&api, "n1", "True");
    api.until("ready", |api| are_ready(api, &["a", "b"])).await;
    api.after(LONG).await;
    assert_eq!(api.calls().len(), 6);
    controller.stop().await;
}

// req: DM-8
#[tokio::test(start_paused = true)]
async fn a_refused_clique_is_reported_by_its_domains_until_it_is_accepted() {
    let (api, controller, [a]) = fixture(1, [("a", 0)]).await;
    create_allocated(&api, "a1", &a, "n1");
    api.until("known", |api| nodes_of(api, "a").len() == 1)
        .await;
    let refused = Rule::once(Call::CreateClique, Fault::Forbidden("exceeded quota: q"));
    api.break_with(refused.times(3));
    api.delete(Resource::Cliques, DRIVER_NAMESPACE, CLIQUE);
    api.until("refused", |api| {
        nodes_ready(api, "a")["reason"] == "CliqueRefused"
    })
    .await;
    let message = nodes_ready(&api, "a")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains(CLIQUE) && message.contains("exceeded quota: q"),
        "{message}"
    );
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_eq!(nodes_ready(&api, "a")["reason"], "NodesReady");
    controller.stop().await;
}

// req: MODE-23, DM-8
#[tokio::test(start_paused = true)]
async fn an_unready_daemon_counts_even_if_its_clique_cannot_be_written() {
    let (api, controller, [a]) = fixture(1, [("a", 0)]).await;
    create_allocated(&api, "a1", &a, "n1");
    api.until("ready", |api| {
        is_ready(api, "a") && nodes_of(api, "a").len() == 1
    })
    .await;
    let refused = Rule::always(Call::ReplaceClique, Fault::Forbidden("denied by policy p"));
    api.break_with(refused);
    set_ready(&api, "n1", "False");
    api.until("not ready", |api| {
        !is_ready(api, "a") && nodes_ready(api, "a")["reason"] == "CliqueRefused"
    })
    .await;
    controller.stop().await;
}

// req: MODE-21
#[tokio::test(start_paused = true)]
async fn a_node_without_a_clique_has_the_address_and_readiness_of_its_daemon() {
    let (api, controller, [a]) = fixture(1, [("a", 0)]).await;
    create_node(&api, "n7", None);
    create_allocated(&api, "one", &a, "n7");
    create_allocated(&api, "two", &a, "n1");
    create_allocated(&api, "three", &a, "n9");
    let ready = [
        is("n1", "10.0.0.1", 0, "Ready"),
        is("n7", "10.0.0.7", -1, "Ready"),
        is("n9", "", -1, "NotReady"),
    ];
    api.until("known", |api| nodes_of(api, "a") == ready).await;
    assert_eq!(
        nodes_ready(&api, "a")["message"],
        "nodes with allocated claims: 3; IMEX daemon not ready: n9; not in an NVLink clique, so their pods get no IMEX channel: n7"
    );
    set_ready(&api, "n7", "False");
    api.until("not ready", |api| {
        nodes_of(api, "a")[1]["status"] == "NotReady"
    })
    .await;
    controller.stop().await;
}

// req: MODE-21
#[tokio::test(start_paused = true)]
async fn nodes_without_allocated_claims_are_removed_the_last_one_without_a_list() {
    let (api, controller, [a]) = fixture(3, [("a", 0)]).await;
    for number in 1..=3 {
        create_allocated(&api, &format!("c{number}"), &a, &format!("n{number}"));
    }
    api.until("three", |api| nodes_of(api, "a").len() == 3)
        .await;
    api.edit(Resource::Claims, TEAM, "c1", |claim| {
        claim["metadata"]["finalizers"] = json!([]);
        claim["status"] = json!({});
    });
    api.until("two", |api| nodes_of(api, "a").len() == 2).await;
    api.delete(Resource::Claims, TEAM, "c1");
    strip_claim(&api, "c2");
    api.until("one", |api| {
        nodes_of(api, "a") == [is("n3", "10.0.0.3", 2, "Ready")]
    })
    .await;
    api.after(LONG).await;
    api.forget_requests();
    strip_claim(&api, "c3");
    api.until("none", |api| nodes_of(api, "a").is_empty()).await;
    api.after(LONG).await;
    assert_eq!(api.calls(), [Call::WriteStatus]);
    assert!(is_ready(&api, "a"));
    controller.stop().await;
}

/// Deletes a claim, as the end of its pod does.
fn strip_claim(api: &FakeApi, claim: &str) {
    api.delete(Resource::Claims, TEAM, claim);
    strip_finalizers(api, Resource::Claims, claim);
}

// req: MODE-24
#[tokio::test(start_paused = true)]
async fn a_new_controller_corrects_only_what_has_changed_meanwhile() {
    let (api, controller, [a, b]) = fixture(2, [("a", 1), ("b", 0)]).await;
    create_allocated(&api, "of-a", &a, "n1");
    create_allocated(&api, "of-b", &b, "n2");
    api.until("known", |api| {
        nodes_of(api, "a").len() == 1 && nodes_of(api, "b").len() == 1 && is_ready(api, "a")
    })
    .await;
    controller.kill().await;
    let second = Controller::start_driver_managed(&api);
    second.settle().await;
    api.after(LONG).await;
    assert_eq!(api.writes(), 0, "{:?}", api.calls());
    second.kill().await;
    strip_claim(&api, "of-a");
    strip_claim(&api, "of-b");
    api.create(mk_claim("waits", &b));
    let third = Controller::start_driver_managed(&api);
    api.until("corrected", |api| {
        nodes_of(api, "a").is_empty() && nodes_of(api, "b").is_empty()
    })
    .await;
    assert!(!is_ready(&api, "a"), "it wants one");
    third.stop().await;
}

// req: MODE-21
#[tokio::test(start_paused = true)]
async fn the_last_claim_removes_the_nodes_even_before_the_claims_are_listed() {
    let (api, controller, [a]) = fixture(1, [("a", 0)]).await;
    create_allocated(&api, "one", &a, "n1");
    api.until("one", |api| nodes_of(api, "a").len() == 1).await;
    controller.kill().await;
    api.break_with(Rule::always(Call::ListClaimsOfDomain, Fault::Unavailable));
    let second = Controller::start_driver_managed(&api);
    second.settle().await;
    api.after(LONG).await;
    assert_eq!(nodes_of(&api, "a").len(), 1);
    strip_claim(&api, "one");
    let gone = Instant::now();
    api.until("none", |api| nodes_of(api, "a").is_empty()).await;
    assert_within(SECOND, gone);
    second.stop().await;
}

// req: MODE-24
#[tokio::test(start_paused = true)]
async fn while_the_daemons_are_unknown_the_reported_nodes_stay() {
    for unknown in [Call::ListDaemonPods, Call::ListCliques, Call::ListSlices] {
        let (api, controller, [a]) = fixture(1, [("a", 1)]).await;
        create_allocated(&api, "one", &a, "n1");
        api.until("ready", |api| is_ready(api, "a")).await;
        controller.kill().await;
        api.break_with(Rule::always(unknown, Fault::Unavailable));
        set_ready(&api, "n1", "False");
        let second = Controller::start_driver_managed(&api);
        api.create(mk_domain_of("b", 0));
        api.until("another one is ready", |api| is_ready(api, "b"))
            .await;
        api.after(LONG).await;
        let as_before = [is("n1", "10.0.0.1", 0, "Ready")];
        assert_eq!(nodes_of(&api, "a"), as_before, "{unknown:?}");
        assert!(is_ready(&api, "a"));
        api.heal();
        api.until("not ready", |api| !is_ready(api, "a")).await;
        second.stop().await;
    }
}

// req: MODE-21
#[tokio::test(start_paused = true)]
async fn stale_nodes_of_the_go_driver_are_removed_from_the_status() {
    let (api, controller, [a]) = fixture(2, [("a", 0)]).await;
    create_allocated(&api, "one", &a, "n1");
    api.until("one", |api| nodes_of(api, "a").len() == 1).await;
    api.forget_requests();
    api.edit(Resource::Domains, TEAM, "a", |domain| {
        domain["status"]["nodes"] = json!([
            is("n2", "10.9.9.2", 1, "Ready"),
            is("n1", "10.9.9.1", 5, "NotReady"),
            is("n0", "10.9.9.0", 0, "NotReady"),
        ]);
    });
    api.until("removed", |api| {
        nodes_of(api, "a") == [is("n1", "10.0.0.1", 0, "Ready")]
    })
    .await;
    api.after(LONG).await;
    assert_eq!(api.calls(), [Call::WriteStatus, Call::RemoveNodes]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_and_a_lost_write_are_retried() {
    for call in [Call::ListClaimsOfDomain, Call::WriteStatus] {
        for fault in [Fault::RequestLost, Fault::AnswerLost, Fault::Unavailable] {
            let (api, controller, [a]) = fixture(1, [("a", 1)]).await;
            api.break_with(Rule::once(call, fault));
            create_allocated(&api, "one", &a, "n1");
            api.until("ready", |api| is_ready(api, "a")).await;
            api.after(RETRY * 2).await;
            assert_eq!(nodes_of(&api, "a"), [is("n1", "10.0.0.1", 0, "Ready")]);
            controller.stop().await;
        }
    }
}

// req: CHANNEL-20
#[tokio::test(start_paused = true)]
async fn a_domain_with_a_channel_is_also_reported_if_its_pods_are_in_two_cliques() {
    let (api, controller, [a]) = fixture(2, [("a", 0)]).await;
    for (claim, node, clique) in [("one", "n1", "x.1"), ("two", "n2", "x.2")] {
        create_allocated(&api, claim, &a, node);
        report(&api, claim, &a, clique);
    }
    api.until("reported", |api| api.event_note("CliquesSplit").is_some())
        .await;
    let note = api.event_note("CliquesSplit").unwrap();
    assert!(note.contains("x.1, x.2"), "{note}");
    assert!(api.event_note("CliqueShared").is_none());
    controller.stop().await;
}

// req: CD-8
#[tokio::test(start_paused = true)]
async fn in_host_managed_mode_claims_cost_no_list_and_reported_nodes_stay() {
    let api = FakeApi::new();
    create_nodes(&api, 2);
    let controller = Controller::start(&api);
    controller.settle().await;
    let a = uid(&api.create(mk_domain_of("a", 2)));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.edit(Resource::Domains, TEAM, "a", |domain| {
        domain["status"]["nodes"] = json!([is("n2", "10.9.9.2", 1, "NotReady")]);
    });
    api.forget_requests();
    create_allocated(&api, "one", &a, "n1");
    api.after(LONG).await;
    assert!(is_ready(&api, "a"));
    assert_eq!(nodes_of(&api, "a"), [is("n2", "10.9.9.2", 1, "NotReady")]);
    assert_eq!(api.calls(), []);
    controller.stop().await;
}
