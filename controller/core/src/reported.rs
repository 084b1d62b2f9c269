//! The current status of a ComputeDomain.

use compute_domain_api::crd::{ComputeDomainNode, ComputeDomainState, ComputeDomainStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

/// Type of the condition in every status.
pub(crate) const READY_CONDITION: &str = "Ready";

/// Type of the condition about nodes on which no claim can be placed; see [`crate::Waiting`].
pub(crate) const NODES_WITHOUT_CLIQUE: &str = "NodesWithoutClique";

/// Type of the condition of a ComputeDomain that was Ready before each got its own channel.
pub(crate) const NOT_ISOLATED: &str = "NotIsolated";

/// Type of the condition about the nodes of a ComputeDomain in driver-managed mode.
pub(crate) const NODES_READY: &str = "NodesReady";

/// What the current status reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) state: ComputeDomainState,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) ready: Option<ReportedCondition>,
    pub(crate) nodes_without_clique: Option<Box<ReportedCondition>>,
    pub(crate) channel: Option<u32>,
    /// The transition time of the condition `NotIsolated`.
    pub(crate) not_isolated: Option<Timestamp>,
    /// `None` if the status has nothing about nodes, to save memory: there may be thousands of domains.
    pub(crate) of_nodes: Option<Box<ReportedNodes>>,
}

/// What a status reports of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedNodes {
    /// In the order of the object.
    pub(crate) nodes: Box<[ComputeDomainNode]>,
    pub(crate) ready: Option<ReportedCondition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedCondition {
    pub(crate) status: Box<str>,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) since: Timestamp,
}

// === impl Reported ===

impl Reported {
    pub(crate) fn new(status: &ComputeDomainStatus) -> Self {
        let condition = |kind: &str| {
            let mut conditions = status.conditions.iter();
            let found = conditions.find(|condition| condition.type_ == kind);
            found.map(ReportedCondition::new)
        };
        Self {
            state: status.status,
            observed_generation: status.observed_generation,
            ready: condition(READY_CONDITION),
            nodes_without_clique: condition(NODES_WITHOUT_CLIQUE).map(Box::new),
            channel: status.channel,
            not_isolated: condition(NOT_ISOLATED).map(|condition| condition.since),
            of_nodes: ReportedNodes::new(&status.nodes, condition(NODES_READY)),
        }
    }

    /// Whether the ComputeDomain was admitted. In driver-managed mode, one that lacks nodes is admitted but
    /// not Ready.
    pub(crate) fn was_admitted(&self) -> bool {
        self.state == ComputeDomainState::Ready || self.admission() == Some(true)
    }

    /// Whether the condition reports that the ComputeDomain is admitted; `None` without the condition, as in a
    /// status of the Go driver.
    pub(crate) fn admission(&self) -> Option<bool> {
        match &*self.ready.as_ref()?.status {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }
    }
}

// === impl ReportedNodes ===

impl ReportedNodes {
    fn new(nodes: &[ComputeDomainNode], ready: Option<ReportedCondition>) -> Option<Box<Self>> {
        let says_nothing = nodes.is_empty() && ready.is_none();
        let nodes = nodes.into();
        (!says_nothing).then(|| Box::new(Self { nodes, ready }))
    }
}

// === impl ReportedCondition ===

impl ReportedCondition {
    fn new(condition: &Condition) -> Self {
        Self {
            status: condition.status.as_str().into(),
            reason: condition.reason.as_str().into(),
            message: condition.message.as_str().into(),
            since: condition.last_transition_time.0,
        }
    }
}

/// A time in the format of conditions.
pub(crate) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
