//! Nodes in driver-managed mode with their IMEX daemons, and claims allocated to them.

use daemon_runtime::Events;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::DRIVER_NAMESPACE;
use super::objects::{TEAM, mk_claim, uid};
use crate::api_client::CONTROLLER_NAME;
use crate::clique_members::{MemberKeeper, MemberMetrics};
use crate::fake_api::{FakeApi, Resource};
use crate::go_daemons::{GoDaemonMetrics, GoDaemonRemover};
use crate::worker::Worker;

pub(crate) const CLIQUE: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";

/// Creates the worker's keeper of clique members.
pub(crate) fn mk_keeper(worker: &Worker) -> MemberKeeper {
    let client = worker.client.clone();
    MemberKeeper {
        api: worker.context.api.clone(),
        events: Events::new(client.clone(), CONTROLLER_NAME, "pod-1"),
        nodes: worker.context.nodes.clone(),
        readiness: worker.readiness.clone(),
        metrics: MemberMetrics::new(&mut Registry::default()),
        client,
        namespace: DRIVER_NAMESPACE.into(),
        daemons: "imex-dra-component=imex-daemon".to_owned(),
        max_nodes: 18,
        force_after: None,
    }
}

/// Creates the worker's remover of the Go driver's daemons.
pub(crate) fn mk_go_daemon_remover(worker: &Worker) -> GoDaemonRemover {
    GoDaemonRemover {
        client: worker.client.clone(),
        api: worker.context.api.clone(),
        reports: worker.context.reports.clone(),
        index: worker.context.index.clone(),
        readiness: worker.readiness.clone(),
        metrics: GoDaemonMetrics::new(&mut Registry::default()),
        namespaces: worker.context.driver_namespaces.clone(),
    }
}

/// A node `nN` in this clique, or in none, whose daemon is ready at 10.0.0.N.
pub(crate) fn create_node(api: &FakeApi, name: &str, clique: Option<&str>) {
    let node = api.create(json!({ "kind": "Node", "metadata": { "name": name } }));
    let attributes = clique.map(|clique| json!({ "clique": { "string": clique } }));
    api.create(json!({
        "kind": "ResourceSlice",
        "metadata": { "name": format!("00000-{name}"), "ownerReferences": [
            { "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid(&node) },
        ] },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeName": name,
            "devices": [{ "name": "channel-0", "attributes": attributes.unwrap_or(json!({})) }],
            "pool": { "name": name, "generation": 1, "resourceSliceCount": 1 },
        },
    }));
    api.create(json!({
        "kind": "Pod",
        "metadata": {
            "name": format!("daemon-{name}"), "namespace": DRIVER_NAMESPACE,
            "labels": { "imex-dra-component": "imex-daemon" },
        },
        "spec": { "nodeName": name, "containers": [] },
        "status": {
            "phase": "Running", "podIP": format!("10.0.0.{}", &name[1..]),
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }));
}

/// The nodes n1 to `nCOUNT`, all in one clique.
pub(crate) fn create_nodes(api: &FakeApi, count: usize) {
    for number in 1..=count {
        create_node(api, &format!("n{number}"), Some(CLIQUE));
    }
}

/// Sets the readiness of the node's daemon.
pub(crate) fn set_ready(api: &FakeApi, node: &str, ready: &str) {
    let pod = format!("daemon-{node}");
    api.edit(Resource::Pods, DRIVER_NAMESPACE, &pod, |pod| {
        pod["status"]["conditions"][0]["status"] = json!(ready);
    });
}

/// Creates a claim of this domain and allocates it to the node, in the two writes of the scheduler.
pub(crate) fn create_allocated(api: &FakeApi, claim: &str, domain_uid: &str, node: &str) {
    api.create(mk_claim(claim, domain_uid));
    super::objects::allocate(api, claim);
    api.edit(Resource::Claims, TEAM, claim, |claim| {
        claim["status"]["allocation"] = json!({ "devices": {
            "results": [{
                "request": "channel", "driver": "compute-domain.nvidia.com",
                "pool": node, "device": "channel-0",
            }],
            "config": [{ "source": "FromClaim", "requests": ["channel"], "opaque": {
                "driver": "compute-domain.nvidia.com", "parameters": { "domainID": domain_uid },
            } }],
        } });
    });
}

/// A node in the format of the status: name, address, index and status.
pub(crate) fn is(name: &str, address: &str, index: i64, status: &str) -> Value {
    let clique = if index < 0 { "" } else { CLIQUE };
    json!({
        "name": name, "ipAddress": address, "cliqueID": clique, "index": index, "status": status,
    })
}

/// The nodes in the status of the domain, in the order of their names.
pub(crate) fn nodes_of(api: &FakeApi, domain: &str) -> Vec<Value> {
    let domain = super::objects::domain(api, domain).unwrap_or_default();
    let nodes = domain["status"]["nodes"].as_array().cloned();
    let mut nodes = nodes.unwrap_or_default();
    nodes.sort_by_key(|node| node["name"].to_string());
    nodes
}
