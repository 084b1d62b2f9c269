//! For driver-managed IMEX: the members of the clique of `hack/mock-node.sh`, and their states.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::cliques::CLIQUE;
use crate::node_pod::NAMESPACE;
use crate::{Cluster, wait_until};

/// The resource of `ComputeDomainClique`s, for kubectl.
pub const CLIQUES: &str = "computedomaincliques.resource.nvidia.com";

/// A node's entry in the object of a clique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The node's name.
    pub node: String,
    /// Its index in the node list of `nvidia-imex`.
    pub index: u64,
    /// Whether its daemon is ready.
    pub is_ready: bool,
    /// The UID of its daemon's pod.
    pub pod_uid: String,
}

/// The object of a clique.
///
/// # Errors
/// If it does not exist.
pub fn object(cluster: &Cluster, clique: &str) -> Result<Value> {
    cluster.json(&["get", CLIQUES, clique, "-n", NAMESPACE])
}

/// The members of a clique, in the order of their names.
///
/// # Errors
/// If it has no object, or a member lacks a field.
pub fn of(cluster: &Cluster, clique: &str) -> Result<Vec<Member>> {
    let object = object(cluster, clique)?;
    let daemons = object.get("daemons").and_then(Value::as_array);
    let members = daemons.into_iter().flatten().map(member);
    let mut members = members.collect::<Result<Vec<_>>>()?;
    members.sort_by(|a, b| a.node.cmp(&b.node));
    Ok(members)
}

fn member(daemon: &Value) -> Result<Member> {
    let text = |field| {
        daemon
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let index = daemon.get("index").and_then(Value::as_u64);
    Ok(Member {
        node: text("nodeName").to_owned(),
        index: index.with_context(|| format!("no index: {daemon}"))?,
        is_ready: text("status") == "Ready",
        pod_uid: text("podUID").to_owned(),
    })
}

/// Waits until both nodes of the cluster are members of [`CLIQUE`] and ready, and returns them.
///
/// # Errors
/// If they are not before the timeout.
pub fn wait_until_ready(cluster: &Cluster) -> Result<Vec<Member>> {
    wait_until(cluster, "both nodes are ready members", || {
        let members = of(cluster, CLIQUE)?;
        let ready: Vec<_> = members.iter().filter(|it| it.is_ready).collect();
        let names: Vec<_> = ready.iter().map(|it| &*it.node).collect();
        ensure!(names == ["node1", "node2"], "{members:?}");
        Ok(members)
    })
}
