//! What the status of a ComputeDomain reports already.

use compute_domain_api::crd::{ComputeDomainState, ComputeDomainStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

/// Type of the only condition that the controller writes.
pub(crate) const READY_CONDITION: &str = "Ready";

/// What a status reports already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) state: ComputeDomainState,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) ready: Option<ReadyCondition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadyCondition {
    pub(crate) status: Box<str>,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) since: Timestamp,
}

// === impl Reported ===

impl Reported {
    pub(crate) fn new(status: &ComputeDomainStatus) -> Self {
        let is_ready = |condition: &&Condition| condition.type_ == READY_CONDITION;
        Self {
            state: status.status,
            observed_generation: status.observed_generation,
            ready: status
                .conditions
                .iter()
                .find(is_ready)
                .map(|condition| ReadyCondition {
                    status: condition.status.as_str().into(),
                    reason: condition.reason.as_str().into(),
                    message: condition.message.as_str().into(),
                    since: condition.last_transition_time.0,
                }),
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
