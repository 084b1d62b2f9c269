use compute_domain_api::crd::ComputeDomainState;
use compute_domain_api::names::API_VERSION;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::domain::Domain;
use crate::rejection::Rejection;
use crate::reported::{READY_CONDITION, time};
use crate::waiting::Notice;

/// Reason of the condition and the event of an admitted ComputeDomain.
const ADMITTED_REASON: &str = "Admitted";

/// Whether a ComputeDomain is admitted: what its status reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its template exists. This says nothing about IMEX on any node.
    Admitted,
    /// It gets no template, for this reason.
    Rejected(Rejection),
}

/// Which optional fields of the status the CRD on the API server has. The CRD of the Go driver has
/// none, and Helm never replaces a CRD. A status with a field that the CRD lacks cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSchema {
    /// `status.conditions`.
    pub conditions: bool,
    /// `status.observedGeneration`.
    pub observed_generation: bool,
}

// === impl StatusSchema ===

impl StatusSchema {
    /// The CRD of this version.
    pub const FULL: Self = Self {
        conditions: true,
        observed_generation: true,
    };

    /// The schema without the field that an error message of the API server names; `None` if it
    /// names none that could be left out.
    ///
    /// The message comes from structured-merge-diff's typed parser, as `.status.conditions: field
    /// not declared in schema`.
    pub fn without_undeclared(self, message: &str) -> Option<Self> {
        let undeclared = |field: &str| {
            message.contains(&format!(".status.{field}: field not declared in schema"))
        };
        let reduced = Self {
            conditions: self.conditions && !undeclared("conditions"),
            observed_generation: self.observed_generation && !undeclared("observedGeneration"),
        };
        (reduced != self).then_some(reduced)
    }
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

    /// Whether the domain's status reports exactly this already, as far as the CRD allows.
    pub fn is_reported_in(&self, domain: &Domain, schema: StatusSchema) -> bool {
        let Some(reported) = &domain.reported else {
            return false;
        };
        let condition_says_so = || {
            reported.ready.as_ref().is_some_and(|ready| {
                *ready.status == *self.condition_status()
                    && *ready.reason == *self.reason()
                    && *ready.message == *self.message()
            })
        };
        reported.state == self.state()
            && (!schema.conditions || condition_says_so())
            && (!schema.observed_generation || reported.observed_generation == domain.generation)
    }
}

/// The status as a server-side apply patch. It contains the fields that the controller owns and no
/// others, so that what other writers add stays. `lastTransitionTime` is `now` only if the
/// condition's status changes. Without `notice`, a condition that had it goes. It applies only to the object with this UID.
pub fn status_patch(
    domain: &Domain,
    admission: &Admission,
    notice: Option<&Notice>,
    schema: StatusSchema,
    now: Timestamp,
) -> Value {
    let mut status = Map::from_iter([("status".to_owned(), json!(admission.state()))]);
    if schema.conditions {
        let ready = condition(domain, admission, now);
        let notice = notice.map(|notice| notice.condition(domain, now));
        let conditions = [ready].into_iter().chain(notice).collect();
        status.insert("conditions".to_owned(), conditions);
    }
    if schema.observed_generation {
        status.insert("observedGeneration".to_owned(), json!(domain.generation));
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "ComputeDomain",
        "metadata": {
            "name": domain.name(),
            "namespace": domain.namespace(),
            // Another ComputeDomain may have the name by now: it must not get this status.
            "uid": domain.uid().as_str(),
        },
        "status": status,
    })
}

fn condition(domain: &Domain, admission: &Admission, now: Timestamp) -> Value {
    let reported = domain.reported.as_ref();
    let before = reported.and_then(|reported| reported.ready.as_ref());
    let since = before
        .filter(|condition| *condition.status == *admission.condition_status())
        .map_or(now, |condition| condition.since);
    json!({
        "type": READY_CONDITION,
        "status": admission.condition_status(),
        "reason": admission.reason(),
        "message": admission.message(),
        "observedGeneration": domain.generation,
        "lastTransitionTime": time(since),
    })
}

#[cfg(test)]
mod tests;
