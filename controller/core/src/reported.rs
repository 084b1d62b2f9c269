//! What the status of a ComputeDomain reports already.

use compute_domain_api::crd::{ComputeDomainState, ComputeDomainStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

/// Type of the condition that every status has.
pub(crate) const READY_CONDITION: &str = "Ready";

/// Type of the condition about nodes on which no claim can be placed; see [`crate::Waiting`].
pub(crate) const NODES_WITHOUT_CLIQUE: &str = "NodesWithoutClique";

/// Type of the condition of a ComputeDomain that was Ready before each got a channel of its own.
pub(crate) const NOT_ISOLATED: &str = "NotIsolated";

/// What a status reports already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) state: ComputeDomainState,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) ready: Option<ReportedCondition>,
    pub(crate) nodes_without_clique: Option<Box<ReportedCondition>>,
    pub(crate) channel: Option<u32>,
    /// Since when it has the condition that says it is not isolated.
    pub(crate) not_isolated: Option<Timestamp>,
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
        }
    }

    /// Whether it reports that the ComputeDomain is admitted; `None` if only a status without
    /// condition says so: the Go driver's, or nobody's.
    pub(crate) fn admission(&self) -> Option<bool> {
        match &*self.ready.as_ref()?.status {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }
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

/// As conditions have it.
pub(crate) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
