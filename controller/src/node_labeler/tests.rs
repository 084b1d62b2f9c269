use compute_domain_api::names::{CLIQUE_LABEL, NO_CLIQUE_TAINT};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::api_client::CONTROLLER_NAME;
use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::fence::Fence;
use crate::testing::objects::{delete_domain, mk_domain, uid};
use crate::testing::{logs, scrape};

const A: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";
const B: &str = "bbbbbbbb-0000-0000-0000-000000000001.0";
const TEN_MINUTES: Duration = Duration::from_secs(600);
const GROUPS: RangeInclusive<u32> = 1..=127;
const OFF: RangeInclusive<u32> = RangeInclusive::new(1, 0);
const NOT_TEN_MINUTES: Duration = TEN_MINUTES.saturating_sub(Duration::from_secs(1));

/// A running keeper, as in a leader.
struct Running {
    readiness: Readiness,
    registry: Registry,
    task: JoinHandle<()>,
}

impl Running {
    fn start(api: &FakeApi, channels: RangeInclusive<u32>) -> Self {
        logs::install();
        let (client, readiness) = (api.client(), Readiness::default());
        let mut registry = Registry::default();
        let keeper = NodeLabeler {
            api: ApiClient::new(client.clone(), Fence::default(), "imex-dra"),
            events: Events::new(client.clone(), CONTROLLER_NAME, "pod-1"),
            readiness: readiness.clone(),
            metrics: CliqueMetrics::new(&mut registry),
            client,
            channels,
            isolates: true,
        };
        Self {
            readiness,
            registry,
            task: tokio::spawn(async move { keeper.run().await }),
        }
    }

    fn labels(&self, outcome: &str) -> u64 {
        let series = format!("imex_dra_clique_labels_total{{outcome=\"{outcome}\"}} ");
        let text = scrape(&self.registry);
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.map_or(0, |count| count.parse().unwrap())
    }

    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Creates a node with the slice of its plugin, with these attributes or taints.
fn create_node(api: &FakeApi, name: &str, labels: &Value, device: &Value) {
    let node =
        api.create(json!({ "kind": "Node", "metadata": { "name": name, "labels": labels } }));
    create_slice(api, name, &uid(&node), device);
}

fn create_slice(api: &FakeApi, node: &str, uid: &str, device: &Value) {
    api.create(json!({
        "kind": "ResourceSlice",
        "metadata": { "name": format!("00000-{node}"), "ownerReferences": [
            { "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid },
        ] },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeName": node, "devices": [device],
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    }));
}

fn device_of(clique: &str) -> Value {
    json!({ "name": "channel-0", "attributes": {
        "type": { "string": "channel" }, "id": { "int": 0 }, "clique": { "string": clique },
    } })
}

fn set_device(api: &FakeApi, node: &str, device: &Value) {
    api.edit(Resource::Slices, "", &format!("00000-{node}"), |slice| {
        slice["spec"]["devices"] = json!([device]);
    });
}

fn label(api: &FakeApi, node: &str) -> Option<String> {
    let node = api.get(Resource::Nodes, "", node)?;
    Some(
        node["metadata"]["labels"][CLIQUE_LABEL]
            .as_str()?
            .to_owned(),
    )
}

fn is_labelled(api: &FakeApi, node: &str, clique: &str) -> bool {
    label(api, node).as_deref() == Some(clique)
}

/// The requests without the list of labels every ten minutes.
fn calls_but_looks(api: &FakeApi) -> Vec<Call> {
    let mut calls = api.calls();
    calls.retain(|call| *call != Call::ListNodeLabels);
    calls
}

fn why_refused(readiness: &Readiness) -> Option<String> {
    let mut unmet = readiness.unmet().into_iter();
    unmet
        .find(|(name, _)| *name == "group-claims")
        .map(|(_, why)| why.clone())
}

/// The slices of cliques' pools: name, generation and number of devices.
fn pool_slices(api: &FakeApi) -> Vec<(String, u64, usize)> {
    api.read_all(Resource::Slices, |slice| {
        let spec = &slice["spec"];
        let name = slice["metadata"]["name"].as_str()?.to_owned();
        let generation = spec["pool"]["generation"].as_u64()?;
        let devices = spec["devices"].as_array().map_or(0, Vec::len);
        let is_of_pool = spec["nodeSelector"].is_object();
        is_of_pool.then_some((name, generation, devices))
    })
}

fn slice_name(clique: &str, number: usize) -> String {
    format!("compute-domain-clique-{clique}-{number}")
}

fn is_complete(api: &FakeApi, clique: &str, generation: u64) -> bool {
    let first = (slice_name(clique, 1), generation, 64);
    pool_slices(api).starts_with(&[first, (slice_name(clique, 2), generation, 63)])
}

fn create_group_claim(api: &FakeApi, clique: &str) {
    api.create(json!({
        "kind": "ResourceClaim", "metadata": { "name": "gang", "namespace": "team" },
        "spec": {},
        "status": { "allocation": { "devices": { "results": [
            { "driver": "gpu.nvidia.com", "pool": "node1", "device": "gpu-0" },
            { "driver": "compute-domain.nvidia.com", "pool": format!("clique-{clique}"), "device": "channel-3" },
        ] } } },
    }));
}

#[tokio::test(start_paused = true)]
async fn nodes_get_the_label_of_their_clique_and_a_restart_writes_nothing() {
    let api = FakeApi::new();
    create_node(&api, "n1", &json!({}), &device_of(A));
    create_node(&api, "n2", &json!({ "zone": "z" }), &device_of(B));
    create_node(&api, "n3", &json!({}), &json!({ "name": "channel-0" }));
    api.create(json!({ "kind": "Node", "metadata": { "name": "without-gpus" } }));
    let first = Running::start(&api, OFF);
    let labelled = |api: &FakeApi| is_labelled(api, "n1", A) && is_labelled(api, "n2", B);
    api.until("labelled", labelled).await;
    assert_eq!(first.labels("written"), 2);
    first.kill().await;
    api.forget_requests();
    let second = Running::start(&api, OFF);
    api.until("watching", |api| api.open_watches(Call::WatchSlices) == 1)
        .await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(api.calls(), [Call::ListNodeLabels, Call::ListSlices]);
    assert_eq!(second.readiness.unmet(), []);
    assert_eq!((label(&api, "n3"), pool_slices(&api)), (None, vec![]));
    let other = api.get(Resource::Nodes, "", "n2").unwrap();
    assert_eq!(other["metadata"]["labels"]["zone"], "z");
    second.kill().await;
}

// req: CHANNEL-21
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_its_clique_is_relabelled_within_a_second_and_gets_an_event() {
    let api = FakeApi::new();
    create_node(&api, "n1", &json!({}), &device_of(A));
    let running = Running::start(&api, OFF);
    api.until("labelled", |api| is_labelled(api, "n1", A)).await;
    let changed = Instant::now();
    set_device(&api, "n1", &device_of(B));
    api.until("labelled anew", |api| is_labelled(api, "n1", B))
        .await;
    assert!(changed.elapsed() <= Duration::from_secs(1));
    api.until("the event", |api| api.event_note("CliqueChanged").is_some())
        .await;
    let note = api.event_note("CliqueChanged").unwrap();
    assert!(note.contains(&format!("from {A} to {B}")), "{note}");
    // The attribute is missing while the driver is reloaded.
    set_device(&api, "n1", &json!({ "name": "channel-0" }));
    api.delete(Resource::Slices, "", "00000-n1");
    api.forget_requests();
    api.after(TEN_MINUTES).await;
    assert_eq!(
        (calls_but_looks(&api), label(&api, "n1")),
        (vec![], Some(B.to_owned()))
    );
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn only_our_label_is_removed_from_a_node_that_lost_its_clique() {
    let api = FakeApi::new();
    create_node(&api, "ours", &json!({}), &device_of(A));
    create_node(&api, "theirs", &json!({ CLIQUE_LABEL: A }), &device_of(A));
    let running = Running::start(&api, OFF);
    api.until("labelled", |api| is_labelled(api, "ours", A))
        .await;
    let tainted = json!({ "name": "channel-0", "taints": [{ "key": NO_CLIQUE_TAINT, "effect": "NoSchedule" }] });
    for node in ["ours", "theirs"] {
        set_device(&api, node, &tainted);
    }
    api.until("gone", |api| label(api, "ours").is_none()).await;
    api.after(TEN_MINUTES).await;
    assert!(is_labelled(&api, "theirs", A));
    running.kill().await;
}

// req: CHANNEL-21
#[tokio::test(start_paused = true)]
async fn a_label_of_another_owner_is_left_alone_and_counted() {
    let api = FakeApi::new();
    create_node(
        &api,
        "n1",
        &json!({ CLIQUE_LABEL: "theirs" }),
        &device_of(A),
    );
    let running = Running::start(&api, OFF);
    api.until("tried", |_| running.labels("owned-by-others") == 1)
        .await;
    api.after(TEN_MINUTES * 5).await;
    assert!(is_labelled(&api, "n1", "theirs"));
    assert_eq!(api.count(Call::LabelNode), 1);
    api.after(TEN_MINUTES * 2).await;
    assert_eq!(api.count(Call::LabelNode), 2, "after an hour");
    assert_eq!(running.labels("failed"), 0);
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_not_labelled_from_a_slice_of_a_former_node_of_its_name() {
    let api = FakeApi::new();
    api.create(json!({ "kind": "Node", "metadata": { "name": "n1" } }));
    create_slice(&api, "n1", "of-the-former", &device_of(A));
    create_slice(&api, "gone", "of-the-former", &device_of(A));
    let running = Running::start(&api, OFF);
    api.until("tried", |_| running.labels("failed") >= 4).await;
    assert_eq!(
        (label(&api, "n1"), api.all(Resource::Nodes).len()),
        (None, 1)
    );
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn two_thousand_nodes_are_labelled_with_at_most_fifty_writes_a_second() {
    const NODES: usize = 2_000;
    let api = FakeApi::new();
    for number in 0..NODES {
        create_node(&api, &format!("n{number}"), &json!({}), &device_of(A));
    }
    let started = Instant::now();
    let running = Running::start(&api, OFF);
    api.until("labelled", |_| running.labels("written") == NODES as u64)
        .await;
    assert!(
        started.elapsed() >= Duration::from_secs(39),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(api.count(Call::LabelNode), NODES);
    assert_eq!(api.lists(), 1 + NODES / 500);
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_clique_with_a_node_has_a_pool_which_is_repaired() {
    let api = FakeApi::new();
    create_node(&api, "n1", &json!({}), &device_of(A));
    create_node(&api, "n2", &json!({}), &device_of(A));
    let running = Running::start(&api, GROUPS);
    api.until("complete", |api| is_complete(api, A, 1)).await;
    assert_eq!(pool_slices(&api).len(), 2);
    api.delete(Resource::Slices, "", &slice_name(A, 2));
    api.until("made again", |api| is_complete(api, A, 1)).await;
    api.edit(Resource::Slices, "", &slice_name(A, 1), |slice| {
        slice["spec"]["devices"] = json!([]);
    });
    api.until("as it was", |api| is_complete(api, A, 2)).await;
    // Foreign slices, in the same pool or with a name like ours.
    let of_others = json!({
        "kind": "ResourceSlice", "metadata": { "name": slice_name(A, 9) + "-by-hand" },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeSelector": {},
            "pool": { "name": format!("clique-{A}"), "generation": 1, "resourceSliceCount": 1 },
        },
    });
    api.create(of_others);
    api.forget_requests();
    api.after(TEN_MINUTES).await;
    assert_eq!(
        (calls_but_looks(&api), pool_slices(&api).len()),
        (vec![], 3)
    );
    assert!(scrape(&running.registry).contains("imex_dra_clique_pools 1\n"));
    running.kill().await;
}

// req: CHANNEL-19
#[tokio::test(start_paused = true)]
async fn no_pool_is_created_while_a_domain_has_a_channel_of_a_group() {
    let api = FakeApi::new();
    create_node(&api, "n1", &json!({}), &device_of(A));
    create_node(&api, "n2", &json!({}), &device_of(B));
    for (name, channel) in [("a", 127), ("b", 128), ("c", 0)] {
        let mut domain = mk_domain(name);
        domain["status"] = json!({ "status": "Ready", "channel": channel });
        api.create(domain);
    }
    let running = Running::start(&api, GROUPS);
    api.until("refused", |_| why_refused(&running.readiness).is_some())
        .await;
    let why = why_refused(&running.readiness).unwrap();
    assert!(why.contains("team/a") && !why.contains("team/b"), "{why}");
    api.forget_requests();
    api.after(TEN_MINUTES).await;
    let lists = api.count(Call::ListDomains);
    assert!(
        (9..=10).contains(&lists),
        "once a minute for all cliques: {lists}"
    );
    assert_eq!(pool_slices(&api), []);
    delete_domain(&api, "a");
    let both = |api: &FakeApi| is_complete(api, A, 1) && pool_slices(api).len() == 4;
    api.until("created", both).await;
    assert_eq!(running.readiness.unmet(), []);
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_without_nodes_is_deleted_after_ten_minutes_unless_a_claim_uses_it() {
    let api = FakeApi::new();
    create_node(&api, "n1", &json!({}), &device_of(A));
    create_group_claim(&api, A);
    let running = Running::start(&api, GROUPS);
    api.until("complete", |api| is_complete(api, A, 1)).await;
    api.forget_requests();
    api.delete(Resource::Slices, "", "00000-n1");
    api.after(NOT_TEN_MINUTES).await;
    assert_eq!(calls_but_looks(&api), []);
    api.after(TEN_MINUTES).await;
    assert!(is_complete(&api, A, 1), "a claim is allocated from it");
    assert_eq!(calls_but_looks(&api), [Call::ListAllocations]);
    api.delete(Resource::Claims, "team", "gang");
    api.after(TEN_MINUTES).await;
    api.until("gone", |api| pool_slices(api).is_empty()).await;
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn disabled_group_claims_leave_only_pools_with_allocated_claims() {
    let api = FakeApi::new();
    create_node(&api, "n1", &json!({}), &device_of(A));
    create_node(&api, "n2", &json!({}), &device_of(B));
    create_group_claim(&api, A);
    let running = Running::start(&api, GROUPS);
    api.until("complete", |api| pool_slices(api).len() == 4)
        .await;
    running.kill().await;
    let running = Running::start(&api, OFF);
    api.after(TEN_MINUTES).await;
    api.until("the other one is gone", |api| pool_slices(api).len() == 2)
        .await;
    assert!(is_complete(&api, A, 1));
    api.delete(Resource::Claims, "team", "gang");
    api.after(TEN_MINUTES).await;
    api.until("gone", |api| pool_slices(api).is_empty()).await;
    assert_eq!(running.readiness.unmet(), []);
    running.kill().await;
}

mod faults;

#[tokio::test(start_paused = true)]
async fn no_pool_is_created_while_a_channel_of_a_domain_cools_down() {
    let api = FakeApi::new();
    create_node(&api, "n1", &json!({}), &device_of(A));
    for channel in [1, 200] {
        api.create(json!({
            "kind": "Lease",
            "metadata": {
                "name": format!("imex-channel-{channel:04}"), "namespace": "imex-dra",
                "labels": { "resource.nvidia.com/imexChannel": channel.to_string() },
            },
            "spec": { "holderIdentity": "gone", "renewTime": "2026-01-02T03:04:05.000000Z" },
        }));
    }
    let running = Running::start(&api, GROUPS);
    api.until("refused", |_| why_refused(&running.readiness).is_some())
        .await;
    let why = why_refused(&running.readiness).unwrap();
    assert!(why.contains("(imex-channel-0001); wait"), "{why}");
    let calls = api.calls();
    let taken = calls.iter().position(|it| *it == Call::CreateLease);
    let looked = calls.iter().position(|it| *it == Call::ListDomains);
    assert!(taken.is_some() && taken < looked, "{calls:?}");
    api.delete(Resource::Leases, "imex-dra", "imex-channel-0001");
    api.until("created", |api| is_complete(api, A, 1)).await;
    assert_eq!(running.readiness.unmet(), []);
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_label_is_restored_and_a_foreign_label_is_reported() {
    let api = FakeApi::new();
    create_node(&api, "removed", &json!({}), &device_of(A));
    create_node(
        &api,
        "theirs",
        &json!({ CLIQUE_LABEL: "somebody.1" }),
        &device_of(A),
    );
    let running = Running::start(&api, GROUPS);
    let is_reported = |api: &FakeApi| api.event_note("CliqueLabelNotOurs").is_some();
    api.until("reported", is_reported).await;
    api.until("labelled", |api| is_labelled(api, "removed", A))
        .await;
    let take_away = |node: &str| {
        api.edit(Resource::Nodes, "", node, |node| {
            node["metadata"]["labels"] = json!({});
        });
    };
    take_away("removed");
    api.until("back", |api| is_labelled(api, "removed", A))
        .await;
    api.forget_requests();
    api.after(TEN_MINUTES * 2).await;
    assert_eq!(calls_but_looks(&api), [], "what is theirs is left alone");
    assert_eq!(label(&api, "theirs").as_deref(), Some("somebody.1"));
    take_away("theirs");
    api.until("ours", |api| is_labelled(api, "theirs", A)).await;
    running.kill().await;
}
