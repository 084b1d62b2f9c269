//! A controller in driver-managed mode, after the Go driver ran in its driver-managed mode.

use std::time::Duration;

use compute_domain_api::names::{DOMAIN_LABEL, FINALIZER, TARGET_DAEMON, TARGET_LABEL};
use serde_json::{Value, json};

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, DRIVER_NAMESPACE};

const HOUR: Duration = Duration::from_secs(3600);
const CLIQUE: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";

fn daemons_of(uid: &str) -> String {
    format!("computedomain-daemon-{uid}")
}

/// Creates the Go driver's objects of a domain that runs on these nodes. Returns its UID.
fn create_managed(api: &FakeApi, name: &str, nodes: &[&str]) -> String {
    let mut domain = mk_domain(name);
    domain["metadata"]["finalizers"] = json!([FINALIZER]);
    domain["status"] = json!({ "status": "Ready", "nodes": [] });
    let uid = uid(&api.create(domain));
    api.create(mk_template_of_go(&format!("{name}-channel"), &uid));
    create_daemons(api, &uid);
    for node in nodes {
        let labels = json!({ DOMAIN_LABEL: uid, "zone": "a" });
        api.create(json!({ "kind": "Node", "metadata": { "name": node, "labels": labels } }));
    }
    api.create(json!({
        "kind": "ComputeDomainClique",
        "metadata": {
            "name": format!("{uid}.{CLIQUE}"), "namespace": DRIVER_NAMESPACE,
            "labels": { DOMAIN_LABEL: uid, "resource.nvidia.com/computeDomain.cliqueID": CLIQUE },
        },
        "daemons": [],
    }));
    uid
}

fn create_daemons(api: &FakeApi, uid: &str) {
    let mut template = mk_template_of_go(&daemons_of(uid), uid);
    template["metadata"]["labels"][TARGET_LABEL] = json!(TARGET_DAEMON);
    api.create(in_namespace(DRIVER_NAMESPACE, template));
    api.create(json!({
        "kind": "DaemonSet",
        "metadata": {
            "name": daemons_of(uid), "namespace": DRIVER_NAMESPACE, "finalizers": [FINALIZER],
            "labels": { DOMAIN_LABEL: uid },
        },
    }));
}

/// Creates a claim of the Go driver's template, without label, for a running pod.
fn create_running(api: &FakeApi, name: &str, uid: &str) {
    let config = json!([{ "source": "FromClaim", "requests": ["channel"], "opaque": {
        "driver": "compute-domain.nvidia.com",
        "parameters": { "kind": "ComputeDomainChannelConfig", "domainID": uid },
    } }]);
    let mut claim = mk_claim(name, uid);
    claim["metadata"]["labels"] = json!({});
    claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    claim["status"] = json!({ "allocation": { "devices": { "config": config } } });
    api.create(claim);
}

/// The pod has ended.
fn end(api: &FakeApi, name: &str) {
    api.edit(Resource::Claims, TEAM, name, |claim| {
        claim["metadata"]["finalizers"] = json!([]);
    });
    api.delete(Resource::Claims, TEAM, name);
}

/// Whether only the domain and its template are left of the Go driver's objects.
fn is_clean(api: &FakeApi, uid: &str) -> bool {
    let resources = [
        Resource::DaemonSets,
        Resource::Nodes,
        Resource::Cliques,
        Resource::Templates,
    ];
    let is_of = |it: &Value| {
        it["metadata"]["labels"][DOMAIN_LABEL] == json!(uid)
            && it["metadata"]["namespace"] != json!(TEAM)
    };
    !resources.iter().any(|resource| api.any(*resource, is_of))
}

fn channel(api: &FakeApi, name: &str) -> Option<u64> {
    domain(api, name)?["status"]["channel"].as_u64()
}

// req: MODE-30, MODE-31, MODE-33
#[tokio::test(start_paused = true)]
async fn daemons_of_a_domain_without_claims_are_removed_and_it_gets_a_channel() {
    let api = FakeApi::new();
    let a = create_managed(&api, "a", &["n1", "n2"]);
    let foreign = [
        api.create(json!({
            "kind": "DaemonSet",
            "metadata": { "name": "another", "namespace": DRIVER_NAMESPACE, "labels": { DOMAIN_LABEL: a } },
        })),
        api.create(json!({
            "kind": "DaemonSet",
            "metadata": { "name": daemons_of(&a), "namespace": TEAM, "labels": { DOMAIN_LABEL: a } },
        })),
        api.create(json!({
            "kind": "ComputeDomainClique",
            "metadata": { "name": CLIQUE, "namespace": DRIVER_NAMESPACE, "labels": { DOMAIN_LABEL: a } },
            "daemons": [],
        })),
    ];
    let other = api.create(json!({
        "kind": "Node", "metadata": { "name": "n3", "labels": { DOMAIN_LABEL: "another" } },
    }));
    let controller = Controller::start_driver_managed(&api);
    api.until("ready", |api| channel(api, "a").is_some()).await;
    api.after(HOUR).await;
    for object in &foreign {
        let meta = &object["metadata"];
        let text = |field: &str| meta[field].as_str().unwrap().to_owned();
        let resource = match object["kind"].as_str().unwrap() {
            "DaemonSet" => Resource::DaemonSets,
            _ => Resource::Cliques,
        };
        let now = api.get(resource, &text("namespace"), &text("name"));
        assert_eq!(now.as_ref(), Some(object));
    }
    assert_eq!(api.get(Resource::Nodes, "", "n3"), Some(other));
    for node in ["n1", "n2"] {
        let node = api.get(Resource::Nodes, "", node).unwrap();
        assert_eq!(node["metadata"]["labels"], json!({ "zone": "a" }));
    }
    let templates = api.all(Resource::Templates);
    let names: Vec<_> = templates.iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["a-channel"]);
    // Nodes would refuse claims of the Go driver's template.
    let labels = &templates[0]["spec"]["metadata"]["labels"];
    assert_eq!(*labels, json!({ DOMAIN_LABEL: a }));
    let note = api.event_note("GoDaemonsRemoved").unwrap();
    assert!(note.contains("were removed"), "{note}");
    // Three objects, each deleted and released; two nodes; one clique.
    let writes = [
        (Call::DeleteGoDaemonSet, 1),
        (Call::ReleaseGoDaemonSet, 1),
        (Call::UnlabelNode, 2),
        (Call::DeleteClique, 1),
        (Call::DeleteTemplate, 2),
        (Call::ReleaseTemplate, 2),
        (Call::ListAllocations, 1),
    ];
    for (call, times) in writes {
        assert_eq!(api.count(call), times, "{call:?}");
    }
    assert_eq!(api.open_watches(Call::WatchAllClaims), 0);
    controller.stop().await;
}

// req: MODE-30, MODE-31, MODE-35
#[tokio::test(start_paused = true)]
async fn a_domain_in_use_keeps_its_daemons_and_admits_no_pod_until_its_last_claim_is_deallocated() {
    let api = FakeApi::new();
    let a = create_managed(&api, "a", &["n1"]);
    for claim in ["x", "y"] {
        create_running(&api, claim, &a);
    }
    create_running(&api, "other", "another");
    let controller = Controller::start_driver_managed(&api);
    api.until("reported", |api| api.event_note("GoDaemonsInUse").is_some())
        .await;
    let note = api.event_note("GoDaemonsInUse").unwrap();
    assert!(
        note.contains("claims are allocated: team/x, team/y"),
        "{note}"
    );
    api.until("rejected", |api| {
        reason(api, "a") == "DriverManagedLeftovers"
    })
    .await;
    let message = message(&api, "a");
    assert!(
        message.contains("wait: the controller removes"),
        "{message}"
    );
    api.after(HOUR).await;
    end(&api, "x");
    end(&api, "other");
    api.after(HOUR).await;
    assert_eq!(channel(&api, "a"), None);
    assert!(!is_clean(&api, &a));
    // No requests were made in these hours.
    assert_eq!(api.count(Call::ListAllocations), 1);
    assert_eq!(api.count(Call::DeleteGoDaemonSet), 0);
    assert!(controller.metrics().lines().count() > 0);

    end(&api, "y");
    api.until("removed", |api| is_clean(api, &a)).await;
    api.until("has a channel", |api| channel(api, "a").is_some())
        .await;
    assert_eq!(api.count(Call::ListAllocations), 2);
    controller.stop().await;
}

// req: MODE-32
#[tokio::test(start_paused = true)]
async fn a_removal_killed_at_any_step_is_finished_by_the_next_controller() {
    let calls = [
        Call::ListAllocations,
        Call::DeleteGoDaemonSet,
        Call::ReleaseGoDaemonSet,
        Call::ListNodes,
        Call::UnlabelNode,
        Call::ListCliques,
        Call::DeleteClique,
        Call::DeleteTemplate,
        Call::ReleaseTemplate,
    ];
    for (call, fault) in calls
        .into_iter()
        .flat_map(|call| [(call, Fault::NoAnswer), (call, Fault::AnswerLost)])
    {
        let api = FakeApi::new();
        let a = create_managed(&api, "a", &["n1", "n2"]);
        api.break_with(Rule::once(call, fault));
        let first = Controller::start_driver_managed(&api);
        api.until("in the middle", |api| api.count(call) > 0).await;
        first.kill().await;
        let second = Controller::start_driver_managed(&api);
        api.until("removed", |api| is_clean(api, &a)).await;
        api.until("has a channel", |api| channel(api, "a").is_some())
            .await;
        second.stop().await;
    }
}

// req: MODE-32
#[tokio::test(start_paused = true)]
async fn a_refused_request_is_retried_and_the_template_is_removed_last() {
    for call in [
        Call::ListAllocations,
        Call::DeleteGoDaemonSet,
        Call::ReleaseGoDaemonSet,
        Call::ListNodes,
        Call::UnlabelNode,
        Call::DeleteClique,
    ] {
        for fault in [
            Fault::InternalError,
            Fault::Forbidden("no"),
            Fault::Unavailable,
        ] {
            let api = FakeApi::new();
            let a = create_managed(&api, "a", &["n1"]);
            api.break_with(Rule::always(call, fault));
            let controller = Controller::start_driver_managed(&api);
            api.after(Duration::from_secs(300)).await;
            let daemons = api.get(Resource::Templates, DRIVER_NAMESPACE, &daemons_of(&a));
            assert!(daemons.is_some(), "{call:?} {fault:?}");
            assert_eq!(channel(&api, "a"), None);
            assert!(api.count(call) < 20, "{call:?} {fault:?}");
            api.heal();
            api.until("removed", |api| is_clean(api, &a)).await;
            controller.stop().await;
        }
    }
}

// req: MODE-30
#[tokio::test(start_paused = true)]
async fn leftovers_of_a_deleted_domain_are_removed() {
    let api = FakeApi::new();
    create_daemons(&api, "gone");
    create_running(&api, "x", "gone");
    let controller = Controller::start_driver_managed(&api);
    controller.settle().await;
    api.after(HOUR).await;
    assert!(!is_clean(&api, "gone"));
    end(&api, "x");
    api.until("removed", |api| is_clean(api, "gone")).await;
    assert_eq!(api.event_note("GoDaemonsRemoved"), None);
    controller.stop().await;
}

// req: MODE-34
#[tokio::test(start_paused = true)]
async fn recreated_daemons_are_reported_and_left_alone_for_ten_minutes() {
    let api = FakeApi::new();
    let a = create_managed(&api, "a", &[]);
    let controller = Controller::start_driver_managed(&api);
    api.until("removed", |api| is_clean(api, &a)).await;
    api.after(Duration::from_secs(60)).await;
    create_daemons(&api, &a);
    api.until("reported", |api| {
        api.event_note("GoDaemonsCameBack").is_some()
    })
    .await;
    api.after(Duration::from_secs(500)).await;
    assert_eq!(api.count(Call::DeleteGoDaemonSet), 1);
    api.until("removed", |api| is_clean(api, &a)).await;
    controller.stop().await;
}

// req: MODE-35
#[tokio::test(start_paused = true)]
async fn without_the_go_driver_two_watches_are_open_and_nothing_is_requested() {
    let api = FakeApi::new();
    let controller = Controller::start_driver_managed(&api);
    controller.settle().await;
    create_running(&api, "x", "another");
    api.after(HOUR).await;
    for call in [Call::WatchGoDaemonSets, Call::WatchGoTemplates] {
        assert_eq!(api.open_watches(call), 1, "{call:?}");
    }
    assert_eq!(api.open_watches(Call::WatchAllClaims), 0);
    let unused = [
        Call::ListAllocations,
        Call::ListGoDaemonSets,
        Call::ListNodes,
    ];
    for call in unused {
        assert_eq!(api.count(call), 0, "{call:?}");
    }
    controller.stop().await;
}
