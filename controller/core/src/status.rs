use compute_domain_api::crd::{ComputeDomainState, ComputeDomainStatus};
use compute_domain_api::names::API_VERSION;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Domain, Refusal};

/// Type of the one condition that we write.
pub const READY_CONDITION: &str = "Ready";

/// Reason of an admitted domain's condition and event.
pub const ADMITTED_REASON: &str = "Admitted";

/// The answer to a live ComputeDomain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its template exists. It says nothing about IMEX on any node.
    Admitted,
    /// It gets no template.
    Refused(Refusal),
}

impl Verdict {
    /// The word in `status.status`.
    pub fn state(&self) -> ComputeDomainState {
        match self {
            Self::Admitted => ComputeDomainState::Ready,
            Self::Refused(_) => ComputeDomainState::NotReady,
        }
    }

    /// Reason of the condition and the event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Admitted => ADMITTED_REASON,
            Self::Refused(refusal) => refusal.reason(),
        }
    }

    /// One line for a person.
    pub fn message(&self) -> String {
        match self {
            Self::Admitted => {
                "the ResourceClaimTemplate for the workload exists; IMEX on the nodes is the operator's".to_owned()
            }
            Self::Refused(refusal) => refusal.message(),
        }
    }

    fn condition_status(&self) -> &'static str {
        match self {
            Self::Admitted => "True",
            Self::Refused(_) => "False",
        }
    }

    /// Whether the status already says so.
    pub(crate) fn is_in(&self, status: Option<&ComputeDomainStatus>) -> bool {
        status.is_some_and(|status| {
            status.status == self.state()
                && ready_condition(status).is_some_and(|condition| {
                    condition.status == self.condition_status()
                        && condition.reason == self.reason()
                        && condition.message == self.message()
                })
        })
    }
}

/// The status as a server-side apply patch: the state and our condition, and nothing that others
/// write. The transition time is `now` only if the condition turns.
pub fn status_patch(domain: &Domain, verdict: &Verdict, now: Timestamp) -> Value {
    let since = domain
        .status()
        .and_then(ready_condition)
        .filter(|condition| condition.status == verdict.condition_status())
        .map_or(now, |condition| condition.last_transition_time.0);
    json!({
        "apiVersion": API_VERSION,
        "kind": "ComputeDomain",
        "metadata": {
            "name": domain.name(),
            "namespace": domain.namespace(),
            // Another domain of the same name is not ours to judge.
            "uid": domain.id().as_str(),
        },
        "status": {
            "status": verdict.state(),
            "conditions": [{
                "type": READY_CONDITION,
                "status": verdict.condition_status(),
                "reason": verdict.reason(),
                "message": verdict.message(),
                "observedGeneration": domain.object().metadata.generation,
                "lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }],
        },
    })
}

fn ready_condition(status: &ComputeDomainStatus) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY_CONDITION)
}
