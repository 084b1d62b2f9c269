use compute_domain_api::crd::{ComputeDomainState, ComputeDomainStatus};
use compute_domain_api::names::API_VERSION;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::domain::Domain;
use crate::rejection::Rejection;

/// Type of the only condition that the controller writes.
const READY_CONDITION: &str = "Ready";

/// Reason of the condition and the event of an admitted ComputeDomain.
const ADMITTED_REASON: &str = "Admitted";

/// Whether a ComputeDomain that is not being deleted is admitted: what its status reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its template exists. This says nothing about IMEX on any node.
    Admitted,
    /// It gets no template, for this reason.
    Rejected(Rejection),
}

// === impl Admission ===

impl Admission {
    /// The value of `status.status`.
    pub fn state(&self) -> ComputeDomainState {
        match self {
            Self::Admitted => ComputeDomainState::Ready,
            Self::Rejected(_) => ComputeDomainState::NotReady,
        }
    }

    /// Reason of the condition and the event. Stable.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Admitted => ADMITTED_REASON,
            Self::Rejected(rejection) => rejection.reason(),
        }
    }

    /// Message of the condition and the event: one line for a person.
    pub fn message(&self) -> String {
        match self {
            Self::Admitted => {
                "the ResourceClaimTemplate for the workload exists; running IMEX on the nodes is up to the operator".to_owned()
            }
            Self::Rejected(rejection) => rejection.message(),
        }
    }

    fn condition_status(&self) -> &'static str {
        match self {
            Self::Admitted => "True",
            Self::Rejected(_) => "False",
        }
    }

    /// Whether the status reports exactly this already.
    pub(crate) fn is_reported_in(&self, status: Option<&ComputeDomainStatus>) -> bool {
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

/// The status as a server-side apply patch. It contains the fields that the controller owns and no
/// others, so that what other writers add stays. `lastTransitionTime` is `now` only if the
/// condition's status changes. It applies only to the object with this UID.
pub fn status_patch(domain: &Domain, admission: &Admission, now: Timestamp) -> Value {
    let since = domain
        .status()
        .and_then(ready_condition)
        .filter(|condition| condition.status == admission.condition_status())
        .map_or(now, |condition| condition.last_transition_time.0);
    json!({
        "apiVersion": API_VERSION,
        "kind": "ComputeDomain",
        "metadata": {
            "name": domain.name(),
            "namespace": domain.namespace(),
            // Another ComputeDomain may have the name by now: it must not get this status.
            "uid": domain.uid().as_str(),
        },
        "status": {
            "status": admission.state(),
            "conditions": [{
                "type": READY_CONDITION,
                "status": admission.condition_status(),
                "reason": admission.reason(),
                "message": admission.message(),
                "observedGeneration": domain.object().metadata.generation,
                "lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }],
        },
    })
}

/// Whether the status reports that the ComputeDomain is admitted; `None` if it does not say.
pub(crate) fn reported_admission(status: Option<&ComputeDomainStatus>) -> Option<bool> {
    match ready_condition(status?)?.status.as_str() {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

fn ready_condition(status: &ComputeDomainStatus) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY_CONDITION)
}
