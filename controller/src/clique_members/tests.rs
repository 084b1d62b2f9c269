use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::api_client::CONTROLLER_NAME;
use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::fence::Fence;
use crate::testing::objects::uid;
use crate::testing::{logs, scrape};

const A: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";
const NAMESPACE: &str = "imex-dra";
const SIX_MINUTES: Duration = Duration::from_secs(360);

/// A running keeper, as in a leader.
struct Running {
    readiness: Readiness,
    registry: Registry,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(api: &FakeApi, max_nodes: u32) -> Self {
        Self::start_with(api, max_nodes, Arc::default()).await
    }

    async fn start_with(api: &FakeApi, max_nodes: u32, nodes: Arc<NodesOfDomains>) -> Self {
        logs::install();
        let (client, readiness) = (api.client(), Readiness::default());
        let mut registry = Registry::default();
        let keeper = MemberKeeper {
            api: ApiClient::new(client.clone(), Fence::default(), NAMESPACE),
            events: Events::new(client.clone(), CONTROLLER_NAME, "pod-1"),
            nodes,
            readiness: readiness.clone(),
            metrics: MemberMetrics::new(&mut registry),
            client,
            namespace: NAMESPACE.into(),
            daemons: "imex-dra-component=imex-daemon".to_owned(),
            max_nodes,
            force_after: None,
        };
        let task = tokio::spawn(async move { keeper.run().await });
        let running = Self {
            readiness,
            registry,
            task,
        };
        api.until("everything is watched", |api| {
            let watches = [
                Call::WatchSlices,
                Call::WatchDaemonPods,
                Call::WatchTemplatesOfDaemons,
                Call::WatchCliques,
            ];
            watches.iter().all(|call| api.open_watches(*call) == 1)
        })
        .await;
        running
    }

    fn metric(&self, series: &str) -> u64 {
        let text = scrape(&self.registry);
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(name, _)| *name == series);
        found.map_or(0, |(_, value)| value.parse().unwrap())
    }

    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Creates a node of the clique with the slice of its plugin.
fn create_node(api: &FakeApi, name: &str) {
    let node = api.create(json!({ "kind": "Node", "metadata": { "name": name } }));
    create_slice(api, name, &uid(&node));
}

fn create_slice(api: &FakeApi, node: &str, uid: &str) {
    create_slice_in(api, node, uid, A);
}

fn create_slice_in(api: &FakeApi, node: &str, uid: &str, clique: &str) {
    api.create(json!({
        "kind": "ResourceSlice",
        "metadata": { "name": format!("00000-{node}"), "ownerReferences": [
            { "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid },
        ] },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeName": node,
            "devices": [{ "name": "channel-0", "attributes": { "clique": { "string": clique } } }],
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    }));
}

fn create_daemon(api: &FakeApi, node: &str, ready: &str) -> String {
    let pod = api.create(json!({
        "kind": "Pod",
        "metadata": {
            "name": format!("daemon-{node}"), "namespace": NAMESPACE,
            "labels": { "imex-dra-component": "imex-daemon" },
        },
        "spec": { "nodeName": node, "containers": [] },
        "status": {
            "phase": "Running", "podIP": format!("10.0.0.{}", &node[1..]),
            "conditions": [{ "type": "Ready", "status": ready }],
        },
    }));
    uid(&pod)
}

fn set_ready(api: &FakeApi, node: &str, ready: &str) {
    api.edit(
        Resource::Pods,
        NAMESPACE,
        &format!("daemon-{node}"),
        |pod| {
            pod["status"]["conditions"][0]["status"] = json!(ready);
        },
    );
}

fn delete_daemon(api: &FakeApi, node: &str) {
    api.delete(Resource::Pods, NAMESPACE, &format!("daemon-{node}"));
}

/// The members: node, index, address and status.
fn members(api: &FakeApi) -> Vec<(String, u64, String, String)> {
    let object = api.get(Resource::Cliques, NAMESPACE, A).unwrap_or_default();
    let daemons = object["daemons"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let member = |it: &Value| {
        let index = it["index"].as_u64().unwrap();
        (
            text(&it["nodeName"]),
            index,
            text(&it["ipAddress"]),
            text(&it["status"]),
        )
    };
    daemons.iter().map(member).collect()
}

fn is(node: &str, index: u64, address: &str, status: &str) -> (String, u64, String, String) {
    (
        node.to_owned(),
        index,
        address.to_owned(),
        status.to_owned(),
    )
}

// req: DM-1
#[tokio::test(start_paused = true)]
async fn a_node_that_joins_costs_two_writes_and_the_object_has_all_that_its_daemon_needs() {
    let api = FakeApi::new();
    let running = Running::start(&api, 18).await;
    api.forget_requests();
    create_node(&api, "n1");
    let pod = create_daemon(&api, "n1", "False");
    let joined = Instant::now();
    api.until("a member", |api| {
        members(api) == [is("n1", 0, "10.0.0.1", "NotReady")]
    })
    .await;
    assert!(
        joined.elapsed() <= Duration::from_millis(300),
        "{:?}",
        joined.elapsed()
    );
    set_ready(&api, "n1", "True");
    api.until("ready", |api| {
        members(api) == [is("n1", 0, "10.0.0.1", "Ready")]
    })
    .await;
    api.after(SIX_MINUTES).await;
    assert_eq!(api.calls(), [Call::CreateClique, Call::ReplaceClique]);
    let object = api.get(Resource::Cliques, NAMESPACE, A).unwrap();
    let node = api.get(Resource::Nodes, "", "n1").unwrap();
    assert_eq!(
        (&object["listLength"], &object["nameScheme"]),
        (&json!(18), &json!("hash10"))
    );
    assert_eq!(object["metadata"]["labels"]["imex-dra/resident"], "true");
    let member = &object["daemons"][0];
    assert_eq!(
        (&member["podUID"], &member["nodeUID"]),
        (&json!(pod), &json!(uid(&node)))
    );
    assert_eq!(member["cliqueID"], A);
    assert_eq!(
        running.metric("imex_dra_clique_members{status=\"Ready\"}"),
        1
    );
    assert_eq!(
        running.metric("imex_dra_clique_writes_total{outcome=\"written\"}"),
        2
    );
    assert_eq!(running.readiness.unmet(), []);
    running.kill().await;
}

// req: DM-1, DM-3
#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_costs_two_writes_and_one_read_of_its_node() {
    let api = FakeApi::new();
    create_node(&api, "n1");
    create_node(&api, "n2");
    create_daemon(&api, "n1", "True");
    create_daemon(&api, "n2", "True");
    let running = Running::start(&api, 18).await;
    api.until("two members", |api| members(api).len() == 2)
        .await;
    api.forget_requests();
    delete_daemon(&api, "n1");
    api.delete(Resource::Slices, "", "00000-n1");
    api.delete(Resource::Nodes, "", "n1");
    api.until("not ready", |api| {
        members(api)[0] == is("n1", 0, "", "NotReady")
    })
    .await;
    api.after(SIX_MINUTES).await;
    assert_eq!(members(&api), [is("n2", 1, "10.0.0.2", "Ready")]);
    assert_eq!(
        api.calls(),
        [Call::ReplaceClique, Call::GetNode, Call::ReplaceClique]
    );
    running.kill().await;
}

// req: DM-4
#[tokio::test(start_paused = true)]
async fn deleted_slices_and_a_controller_restart_cause_no_writes() {
    let api = FakeApi::new();
    create_node(&api, "n1");
    create_daemon(&api, "n1", "True");
    let first = Running::start(&api, 18).await;
    api.until("a member", |api| members(api).len() == 1).await;
    api.forget_requests();
    api.delete(Resource::Slices, "", "00000-n1");
    api.after(SIX_MINUTES).await;
    first.kill().await;
    let second = Running::start(&api, 18).await;
    api.after(SIX_MINUTES).await;
    assert_eq!((api.writes(), api.count(Call::GetNode)), (0, 0));
    set_ready(&api, "n1", "False");
    api.until("followed", |api| {
        members(api) == [is("n1", 0, "10.0.0.1", "NotReady")]
    })
    .await;
    second.kill().await;
}

// req: DM-6
#[tokio::test(start_paused = true)]
async fn a_node_beyond_the_maximum_is_reported_and_the_others_work() {
    let api = FakeApi::new();
    for node in ["n1", "n2"] {
        create_node(&api, node);
        create_daemon(&api, node, "True");
    }
    let running = Running::start(&api, 2).await;
    api.until("two members", |api| members(api).len() == 2)
        .await;
    create_node(&api, "n3");
    create_daemon(&api, "n3", "False");
    let event = |api: &FakeApi| api.event_note("TooManyNodesInClique");
    api.until("the event", |api| event(api).is_some()).await;
    let note = event(&api).unwrap();
    assert!(
        note.contains("node n3") && note.contains("maxNodesPerIMEXDomain"),
        "{note}"
    );
    api.after(SIX_MINUTES).await;
    assert_eq!(running.metric("imex_dra_clique_surplus_nodes"), 1);
    let ready = [
        is("n1", 0, "10.0.0.1", "Ready"),
        is("n2", 1, "10.0.0.2", "Ready"),
    ];
    assert_eq!(members(&api), ready);
    // One for the node, one for the object.
    let about = api.read_all(Resource::Events, |event| {
        Some(event["regarding"]["kind"].as_str()?.to_owned())
    });
    assert_eq!(about.len(), 2, "{about:?}");
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried_and_no_index_changes() {
    for call in [
        Call::CreateClique,
        Call::ReplaceClique,
        Call::ListCliques,
        Call::ListDaemonPods,
    ] {
        for fault in [
            Fault::RequestLost,
            Fault::AnswerLost,
            Fault::Unavailable,
            Fault::Conflict,
        ] {
            let api = FakeApi::new();
            create_node(&api, "n1");
            create_daemon(&api, "n1", "True");
            api.break_with(Rule::once(call, fault).times(3));
            let running = Running::start(&api, 18).await;
            create_node(&api, "n2");
            create_daemon(&api, "n2", "True");
            let both = [
                is("n1", 0, "10.0.0.1", "Ready"),
                is("n2", 1, "10.0.0.2", "Ready"),
            ];
            api.until("both are members", |api| members(api) == both)
                .await;
            running.kill().await;
        }
    }
}

// req: DM-8
#[tokio::test(start_paused = true)]
async fn a_refused_clique_backs_off_is_reported_once_and_delays_no_other() {
    let api = FakeApi::new();
    create_node(&api, "n1");
    create_daemon(&api, "n1", "True");
    let running = Running::start(&api, 18).await;
    api.until("a member", |api| members(api).len() == 1).await;
    let refused = Rule::always(Call::CreateClique, Fault::Forbidden("exceeded quota: q"));
    api.break_with(refused.clone().times(20));
    let since = Instant::now();
    api.delete(Resource::Cliques, NAMESPACE, A);
    api.forget_requests();
    api.until("refused", |api| api.event_note("CliqueRefused").is_some())
        .await;
    let note = api.event_note("CliqueRefused").unwrap();
    assert!(
        note.contains(A) && note.contains("exceeded quota: q"),
        "{note}"
    );
    api.until("a member again", |api| {
        members(api) == [is("n1", 0, "10.0.0.1", "Ready")]
    })
    .await;
    // 1 + 2 + 4 + ... + 32 + 14 times 60 seconds.
    let minutes = since.elapsed().as_secs() / 60;
    assert!((14..=16).contains(&minutes), "{minutes}");
    let events = api.event_reasons();
    assert!(events.len() <= 3, "{events:?}");
    // While one clique is refused, the other continues.
    api.break_with(refused);
    api.forget_requests();
    let other = api.create(json!({ "kind": "Node", "metadata": { "name": "n2" } }));
    create_slice_in(
        &api,
        "n2",
        &uid(&other),
        "bbbbbbbb-0000-0000-0000-000000000001.0",
    );
    create_daemon(&api, "n2", "True");
    api.until("refused", |api| api.count(Call::CreateClique) > 1)
        .await;
    set_ready(&api, "n1", "False");
    let changed = Instant::now();
    api.until("followed", |api| members(api)[0].3 == "NotReady")
        .await;
    assert!(
        changed.elapsed() < Duration::from_secs(1),
        "{:?}",
        changed.elapsed()
    );
    running.kill().await;
}

fn set_scheme(api: &FakeApi, scheme: &str) {
    api.edit(Resource::Cliques, NAMESPACE, A, |object| {
        object["nameScheme"] = json!(scheme);
    });
}

// req: DM-7
#[tokio::test(start_paused = true)]
async fn an_object_that_an_edit_makes_unreadable_is_written_again() {
    let api = FakeApi::new();
    create_node(&api, "n1");
    create_daemon(&api, "n1", "True");
    let running = Running::start(&api, 18).await;
    api.until("a member", |api| members(api).len() == 1).await;
    let spec = |api: &FakeApi| {
        let mut object = api.get(Resource::Cliques, NAMESPACE, A).unwrap();
        object["metadata"] = Value::Null;
        object
    };
    let before = spec(&api);
    set_scheme(&api, "evil");
    api.until("as before", |api| spec(api) == before).await;
    assert_eq!(api.event_note("CliqueUnreadable"), None);
    running.kill().await;
}

/// A later version may have written it, and its daemons may run.
// req: DM-8
#[tokio::test(start_paused = true)]
async fn an_object_unreadable_to_a_new_leader_is_left_and_reported_until_it_is_corrected() {
    let api = FakeApi::new();
    create_node(&api, "n1");
    create_daemon(&api, "n1", "True");
    let running = Running::start(&api, 18).await;
    api.until("a member", |api| members(api).len() == 1).await;
    running.kill().await;
    set_scheme(&api, "later");
    let running = Running::start(&api, 18).await;
    api.until("reported", |api| {
        api.event_note("CliqueUnreadable").is_some()
    })
    .await;
    let note = api.event_note("CliqueUnreadable").unwrap();
    assert!(note.contains("later"), "{note}");
    let (name, why) = running.readiness.unmet().remove(0);
    assert_eq!(name, "clique-objects");
    assert!(why.contains(A) && why.contains("CliqueUnreadable"), "{why}");
    set_ready(&api, "n1", "False");
    api.after(SIX_MINUTES).await;
    assert_eq!(members(&api), [is("n1", 0, "10.0.0.1", "Ready")]);
    set_scheme(&api, "hash10");
    api.until("followed", |api| {
        members(api) == [is("n1", 0, "10.0.0.1", "NotReady")]
    })
    .await;
    assert_eq!(running.readiness.unmet(), []);
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_does_not_lengthen_the_pauses() {
    let api = FakeApi::new();
    api.break_with(Rule::once(Call::CreateClique, Fault::RequestLost).times(10));
    let running = Running::start(&api, 18).await;
    create_node(&api, "n1");
    create_daemon(&api, "n1", "True");
    let since = Instant::now();
    api.until("a member", |api| members(api).len() == 1).await;
    let took = since.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_client_is_a_conflict_and_its_additions_stay() {
    let api = FakeApi::new();
    create_node(&api, "n1");
    create_daemon(&api, "n1", "False");
    let running = Running::start(&api, 18).await;
    api.until("a member", |api| members(api).len() == 1).await;
    set_ready(&api, "n1", "True");
    api.edit(Resource::Cliques, NAMESPACE, A, |object| {
        object["metadata"]["labels"]["example.com/rack"] = json!("r1");
        object["daemons"][0]["ipAddress"] = json!("10.9.9.9");
    });
    api.until("right again", |api| {
        members(api) == [is("n1", 0, "10.0.0.1", "Ready")]
    })
    .await;
    let object = api.get(Resource::Cliques, NAMESPACE, A).unwrap();
    assert_eq!(object["metadata"]["labels"]["example.com/rack"], "r1");
    running.kill().await;
}

// req: DM-7
#[tokio::test(start_paused = true)]
async fn a_lost_label_is_restored_also_by_a_new_controller() {
    for restarts in [false, true] {
        let api = FakeApi::new();
        for node in ["n1", "n2"] {
            create_node(&api, node);
            create_daemon(&api, node, "True");
        }
        let strip = |api: &FakeApi| {
            api.forget_requests();
            api.edit(Resource::Cliques, NAMESPACE, A, |object| {
                object["metadata"]["labels"] = json!({});
            });
        };
        let mut running = Running::start(&api, 18).await;
        api.until("two members", |api| members(api).len() == 2)
            .await;
        let before = api.get(Resource::Cliques, NAMESPACE, A).unwrap();
        if restarts {
            running.kill().await;
            strip(&api);
            running = Running::start(&api, 18).await;
        } else {
            strip(&api);
        }
        api.until("labelled", |api| {
            let object = api.get(Resource::Cliques, NAMESPACE, A).unwrap();
            object["metadata"]["labels"] == before["metadata"]["labels"]
        })
        .await;
        api.after(SIX_MINUTES).await;
        let cost = [Call::CreateClique, Call::GetClique, Call::ReplaceClique];
        assert!(api.calls().ends_with(&cost), "{:?}", api.calls());
        assert_eq!(api.writes(), 2);
        let after = api.get(Resource::Cliques, NAMESPACE, A).unwrap();
        assert_eq!(
            (&after["daemons"], &after["metadata"]["uid"]),
            (&before["daemons"], &before["metadata"]["uid"])
        );
        // It is watched again.
        set_ready(&api, "n1", "False");
        api.until("followed", |api| {
            members(api)[0] == is("n1", 0, "10.0.0.1", "NotReady")
        })
        .await;
        running.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_drops_fields_is_reported_and_recovery_needs_no_restart() {
    let api = FakeApi::new();
    let drop_fields: fn(&mut Value) = |object| {
        let object = object.as_object_mut().unwrap();
        object.retain(|field, _| field != "listLength" && field != "nameScheme");
    };
    api.change_when_stored(Resource::Cliques, drop_fields);
    create_node(&api, "n1");
    create_daemon(&api, "n1", "True");
    let running = Running::start(&api, 18).await;
    api.until("not ready", |_| !running.readiness.unmet().is_empty())
        .await;
    let (name, why) = running.readiness.unmet().remove(0);
    assert_eq!(name, "clique-crd");
    assert!(why.contains("listLength") && why.contains("crd/"), "{why}");
    api.forget_requests();
    api.after(Duration::from_secs(100)).await;
    assert!(api.writes() <= 6, "{}", api.writes());
    api.change_when_stored(Resource::Cliques, |_| {});
    api.until("ready", |_| running.readiness.unmet().is_empty())
        .await;
    assert_eq!(members(&api), [is("n1", 0, "10.0.0.1", "Ready")]);
    running.kill().await;
}

mod rollout;
