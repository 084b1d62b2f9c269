//! The nodes in the status of a ComputeDomain in driver-managed mode, and whether there are enough of them.

use compute_domain_api::AllocationMode;
use compute_domain_api::crd::{ComputeDomainNode, ComputeDomainState};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::domain::Domain;
use crate::reported::{NODES_READY, ReportedNodes, time};

/// How many nodes a message names.
const NAMED: usize = 5;

/// The nodes to which claims of a ComputeDomain are allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// The administrator runs IMEX on the hosts: the status has no nodes.
    #[default]
    Unmanaged,
    /// Not known yet: the nodes in the status stay.
    Unknown,
    /// Known.
    Known {
        /// Sorted by name, without duplicates.
        nodes: Vec<ComputeDomainNode>,
        /// Why the IMEX daemons of some nodes cannot become ready.
        refused: Option<CliqueRefusal>,
    },
}

/// The API server rejects the object of a clique. The IMEX daemons read their peers from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliqueRefusal {
    /// The name of the object.
    pub clique: Box<str>,
    /// The API server's reason.
    pub message: Box<str>,
}

/// The condition `NodesReady`: whether there are enough nodes and all are ready.
#[derive(Debug)]
pub(crate) struct Readiness {
    status: &'static str,
    reason: &'static str,
    message: String,
}

// === impl Nodes ===

impl Nodes {
    /// Known nodes whose clique objects the API server accepts.
    pub(crate) fn known(nodes: Vec<ComputeDomainNode>) -> Self {
        let refused = None;
        Self::Known { nodes, refused }
    }

    fn refused(&self) -> Option<&CliqueRefusal> {
        match self {
            Self::Known { refused, .. } => refused.as_ref(),
            Self::Unmanaged | Self::Unknown => None,
        }
    }

    /// Whether the driver runs IMEX, so that the status has nodes.
    pub fn is_managed(&self) -> bool {
        *self != Self::Unmanaged
    }

    /// The wanted `status.nodes` of this domain; `None` in host-managed mode.
    pub(crate) fn of<'a>(&'a self, domain: &'a Domain) -> Option<&'a [ComputeDomainNode]> {
        match self {
            Self::Unmanaged => None,
            Self::Unknown => Some(reported(domain)),
            Self::Known { nodes, .. } => Some(nodes),
        }
    }

    /// The state of an admitted domain with these nodes.
    // req: MODE-22
    pub(crate) fn state(&self, domain: &Domain) -> ComputeDomainState {
        match self.of(domain) {
            Some(nodes)
                if !are_enough(nodes, domain)
                    || !are_ready(nodes)
                    || unsupported_mode(domain).is_some() =>
            {
                ComputeDomainState::NotReady
            }
            Some(_) | None => ComputeDomainState::Ready,
        }
    }

    /// Whether the domain's status has exactly these nodes, in any order.
    pub(crate) fn are_reported_in(&self, domain: &Domain) -> bool {
        let Some(wanted) = self.of(domain) else {
            return true;
        };
        let reported = reported(domain);
        wanted.len() == reported.len() && wanted.iter().all(|node| reported.contains(node))
    }

    /// The `NodesReady` condition of an admitted domain.
    pub(crate) fn readiness(&self, domain: &Domain) -> Option<Readiness> {
        let nodes = self.of(domain)?;
        if let Some(mode) = unsupported_mode(domain) {
            return Some(Readiness {
                status: "False",
                reason: "AllocationModeUnsupported",
                message: format!(
                    "allocationMode \"{mode}\" is not supported, so all nodes reject the claims of this ComputeDomain; delete the ComputeDomain and create it again with spec.channel.allocationMode: Single"
                ),
            });
        }
        if let Some(CliqueRefusal { clique, message }) = self.refused() {
            return Some(Readiness {
                status: "False",
                reason: "CliqueRefused",
                message: format!(
                    "the API server rejects ComputeDomainClique {clique}, which the IMEX daemons of these nodes need: {message}"
                ),
            });
        }
        let (status, reason) = match (are_enough(nodes, domain), are_ready(nodes)) {
            (false, _) => ("False", "NodesMissing"),
            (true, false) => ("False", "NodesNotReady"),
            (true, true) => ("True", "NodesReady"),
        };
        Some(Readiness {
            status,
            reason,
            message: message(nodes, domain),
        })
    }
}

/// The JSON patch that removes surplus nodes from the written status; `None` if there are none. Server-side
/// apply removes only nodes that the same field manager applied before, not those that the Go driver's
/// controller and daemons wrote.
// req: MODE-21
pub fn without_stray_nodes(written: &Domain, nodes: &Nodes) -> Option<Value> {
    let wanted = nodes.of(written)?;
    let is_stray = |node: &ComputeDomainNode| wanted.iter().all(|it| it.name != node.name);
    let all = reported(written).iter().enumerate();
    let strays: Vec<_> = all.filter(|(_, node)| is_stray(node)).collect();
    if strays.is_empty() {
        return None;
    }
    let mut operations = vec![json!({
        "op": "test", "path": "/metadata/uid", "value": written.uid().as_str(),
    })];
    // The last one first, so that the positions of the others stay valid.
    for (place, node) in strays.into_iter().rev() {
        let path = format!("/status/nodes/{place}");
        operations
            .push(json!({ "op": "test", "path": format!("{path}/name"), "value": node.name }));
        operations.push(json!({ "op": "remove", "path": path }));
    }
    Some(Value::Array(operations))
}

/// The domain's allocation mode, if nodes do not support it.
fn unsupported_mode(domain: &Domain) -> Option<&AllocationMode> {
    let mode = domain.allocation_mode();
    mode.filter(|mode| **mode != AllocationMode::Single)
}

fn reported(domain: &Domain) -> &[ComputeDomainNode] {
    of_nodes(domain).map_or(&[], |reported| &reported.nodes)
}

fn of_nodes(domain: &Domain) -> Option<&ReportedNodes> {
    domain.reported.as_ref()?.of_nodes.as_deref()
}

fn are_enough(nodes: &[ComputeDomainNode], domain: &Domain) -> bool {
    i64::try_from(nodes.len()).is_ok_and(|count| count >= domain.num_nodes())
}

fn are_ready(nodes: &[ComputeDomainNode]) -> bool {
    nodes.iter().all(is_ready)
}

fn is_ready(node: &ComputeDomainNode) -> bool {
    node.status == ComputeDomainState::Ready
}

/// The message of the condition, on one line.
fn message(nodes: &[ComputeDomainNode], domain: &Domain) -> String {
    let count = nodes.len();
    let mut parts = vec![match domain.num_nodes() {
        0 => format!("nodes with allocated claims: {count}"),
        wanted => {
            format!("nodes with allocated claims: {count} of {wanted} (spec.numNodes)")
        }
    }];
    let mut name = |what: &str, is_one: &dyn Fn(&ComputeDomainNode) -> bool| {
        let those: Vec<_> = nodes.iter().filter(|it| is_one(it)).collect();
        if !those.is_empty() {
            parts.push(format!("{what}: {}", enumerate(&those)));
        }
    };
    name("IMEX daemon not ready", &|node| !is_ready(node));
    name(
        "not in an NVLink clique, so their pods get no IMEX channel",
        &|node| node.clique_id.is_empty() && is_ready(node),
    );
    parts.join("; ")
}

fn enumerate(nodes: &[&ComputeDomainNode]) -> String {
    let names = nodes.iter().take(NAMED).map(|node| node.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

// === impl Readiness ===

impl Readiness {
    /// Whether the domain's status has this condition.
    pub(crate) fn is_reported_in(&self, domain: &Domain) -> bool {
        let condition = of_nodes(domain).and_then(|reported| reported.ready.as_ref());
        condition.is_some_and(|it| {
            *it.status == *self.status && *it.reason == *self.reason && *it.message == *self.message
        })
    }

    pub(crate) fn condition(&self, domain: &Domain, now: Timestamp) -> Value {
        let before = of_nodes(domain).and_then(|reported| reported.ready.as_ref());
        let same = before.filter(|before| *before.status == *self.status);
        json!({
            "type": NODES_READY,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": domain.generation,
            "lastTransitionTime": time(same.map_or(now, |before| before.since)),
        })
    }
}

#[cfg(test)]
mod tests;
