//! The condition of a ComputeDomain whose claims wait for allocation while a taint excludes nodes without
//! a clique. The scheduler reports only that it cannot allocate all claims of the pod. The condition says
//! how many nodes have no clique. It is written once and stays while a claim waits.

use compute_domain_api::names::NO_CLIQUE_TAINT;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::domain::Domain;
use crate::reported::{NODES_WITHOUT_CLIQUE, time};

/// The condition's reason.
const REASON: &str = "ClaimWaits";

/// What is known of a ComputeDomain's claims that are not allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Not known yet: the condition stays as it is.
    #[default]
    Unknown,
    /// No claim waits, or the check is switched off.
    Nothing,
    /// A claim waits, not for long: the condition stays as it is.
    Briefly,
    /// A claim has waited long.
    Long,
    /// A claim has waited long, and the nodes were counted.
    Counted(NodeCount),
}

/// The number of nodes that publish devices of our driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// Nodes whose devices have the no-clique taint.
    pub without_clique: usize,
    /// All nodes.
    pub all: usize,
}

/// The condition `NodesWithoutClique` of a ComputeDomain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    message: Box<str>,
    /// `None`: from now on.
    since: Option<Timestamp>,
}

// === impl Waiting ===

impl Waiting {
    /// Whether the nodes have to be counted. They are counted once, not after each change of a node.
    pub(crate) fn needs_count(self, domain: &Domain) -> bool {
        self == Self::Long && !domain.reports_nodes_without_clique()
    }

    /// The condition that an admitted domain should have. It stays as first written until no claim waits.
    pub fn notice(self, domain: &Domain) -> Option<Notice> {
        if self == Self::Nothing {
            return None;
        }
        let reported = domain.reported.as_ref();
        if let Some(reported) = reported.and_then(|it| it.nodes_without_clique.as_ref()) {
            return Some(Notice {
                message: reported.message.clone(),
                since: Some(reported.since),
            });
        }
        match self {
            Self::Counted(count) if count.without_clique > 0 => Some(Notice {
                message: count.message().into(),
                since: None,
            }),
            _ => None,
        }
    }
}

// === impl NodeCount ===

impl NodeCount {
    /// The condition's message, on one line.
    pub fn message(self) -> String {
        let Self {
            without_clique,
            all,
        } = self;
        format!(
            "a ResourceClaim waits for allocation; {without_clique} of {all} nodes with IMEX channels are not in an NVLink clique, and their taint {NO_CLIQUE_TAINT} keeps this ComputeDomain's pods away"
        )
    }
}

// === impl Notice ===

impl Notice {
    pub(crate) fn condition(&self, domain: &Domain, now: Timestamp) -> Value {
        json!({
            "type": NODES_WITHOUT_CLIQUE,
            "status": "True",
            "reason": REASON,
            "message": self.message,
            "observedGeneration": domain.generation,
            "lastTransitionTime": time(self.since.unwrap_or(now)),
        })
    }
}

#[cfg(test)]
mod tests;
