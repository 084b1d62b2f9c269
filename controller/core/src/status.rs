//! The status of a ComputeDomain in JSON: its state, conditions and nodes. The module `nodes` decides whether it is
//! Ready.

use compute_domain_api::crd::ComputeDomainState;
use compute_domain_api::names::API_VERSION;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::domain::Domain;
use crate::nodes::{Nodes, Readiness};
use crate::rejection::{CHANNEL_ASSIGNED_REASON, Rejection};
use crate::reported::{NOT_ISOLATED, READY_CONDITION, time};
use crate::waiting::Notice;

/// Reason of the condition and the event of an admitted ComputeDomain.
const ADMITTED_REASON: &str = "Admitted";

/// Message of that condition in driver-managed mode.
const ADMITTED_MESSAGE: &str = "the ResourceClaimTemplate for the workload exists; for the state of its nodes, see status.nodes and the condition NodesReady";

/// Reason of the condition of a ComputeDomain that keeps channel 0.
const NOT_ISOLATED_REASON: &str = "ReadyBeforeIsolation";

/// Message of that condition.
const NOT_ISOLATED_MESSAGE: &str = "the ComputeDomain shares IMEX channel 0 with all other ComputeDomains that have no channel, because it was Ready before imex.isolation=channel was set; to isolate the ComputeDomain, delete it and create it again";

/// Whether a ComputeDomain is admitted, as its status reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its template exists. This says nothing about IMEX on any node.
    Admitted,
    /// Its template exists. It keeps channel 0, although each new ComputeDomain gets its own channel.
    NotIsolated,
    /// It owns this channel. Its template is created next.
    Assigned(u32),
    /// It gets no template, for this reason.
    Rejected(Rejection),
}

/// The content of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether the ComputeDomain is admitted.
    pub admission: Admission,
    /// The condition about claims that wait.
    pub notice: Option<Notice>,
    /// Its nodes.
    pub nodes: Nodes,
}

/// Which optional status fields the CRD on the API server has. The Go driver's CRD has none, and Helm
/// never replaces a CRD. The API server rejects the apply of a field that the CRD lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSchema {
    /// `status.conditions`.
    pub conditions: bool,
    /// `status.observedGeneration`.
    pub observed_generation: bool,
    /// `status.channel`.
    pub channel: bool,
}

// === impl StatusSchema ===

impl StatusSchema {
    /// The CRD of this version.
    pub const FULL: Self = Self {
        conditions: true,
        observed_generation: true,
        channel: true,
    };

    /// The channel and no other optional field: for the probe whether the CRD has it.
    pub const CHANNEL_ONLY: Self = Self {
        conditions: false,
        observed_generation: false,
        channel: true,
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
            channel: self.channel && !undeclared("channel"),
        };
        (reduced != self).then_some(reduced)
    }
}

// === impl Admission ===

impl Admission {
    /// Reason of the condition and the event. Stable.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Admitted | Self::NotIsolated => ADMITTED_REASON,
            Self::Assigned(_) => CHANNEL_ASSIGNED_REASON,
            Self::Rejected(rejection) => rejection.reason(),
        }
    }

    /// Message of the condition and the event, on one line.
    pub fn message(&self) -> String {
        match self {
            Self::Admitted | Self::NotIsolated => {
                "the ResourceClaimTemplate for the workload exists; the administrator runs IMEX on the nodes".to_owned()
            }
            Self::Assigned(number) => {
                format!("IMEX channel {number} is assigned to the ComputeDomain; its ResourceClaimTemplate is created next")
            }
            Self::Rejected(rejection) => rejection.message(),
        }
    }

    fn condition_status(&self) -> &'static str {
        match self {
            Self::Admitted | Self::NotIsolated => "True",
            Self::Assigned(_) | Self::Rejected(_) => "False",
        }
    }

    /// Whether the domain's template exists.
    pub fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted | Self::NotIsolated)
    }

    /// The channel that the status should have. Once set, it never changes.
    // req: CHANNEL-8
    fn channel(&self, domain: &Domain) -> Option<u32> {
        domain.channel().or(match self {
            Self::Assigned(number) => Some(*number),
            Self::NotIsolated => Some(0),
            Self::Admitted | Self::Rejected(_) => None,
        })
    }
}

// === impl Report ===

impl From<Admission> for Report {
    /// A report of the admission only.
    fn from(admission: Admission) -> Self {
        Self {
            admission,
            notice: None,
            nodes: Nodes::Unmanaged,
        }
    }
}

impl Report {
    /// The value of `status.status`.
    // req: MODE-22
    pub fn state(&self, domain: &Domain) -> ComputeDomainState {
        if self.admission.is_admitted() {
            self.nodes.state(domain)
        } else {
            ComputeDomainState::NotReady
        }
    }

    /// Message of the condition and the event about the admission, on one line.
    pub fn message(&self) -> String {
        if self.admission.is_admitted() && self.nodes.is_managed() {
            return ADMITTED_MESSAGE.to_owned();
        }
        self.admission.message()
    }

    /// Whether the domain's status already has exactly this content, except the notice and the fields
    /// that the CRD lacks.
    pub fn is_reported_in(&self, domain: &Domain, schema: StatusSchema) -> bool {
        let state = domain.reported_state();
        let readiness = self.readiness(domain).filter(|_| schema.conditions);
        self.is_admission_reported_in(domain, schema)
            && state == Some(self.state(domain))
            && self.nodes.are_reported_in(domain)
            && readiness.is_none_or(|readiness| readiness.is_reported_in(domain))
    }

    /// Whether the domain's status already reports the admission. Nodes are not compared.
    pub fn is_admission_reported_in(&self, domain: &Domain, schema: StatusSchema) -> bool {
        let Some(reported) = &domain.reported else {
            return false;
        };
        let admission = &self.admission;
        let condition_says_so = || {
            reported.ready.as_ref().is_some_and(|ready| {
                *ready.status == *admission.condition_status()
                    && *ready.reason == *admission.reason()
                    && *ready.message == *self.message()
            })
        };
        // In driver-managed mode, only the condition shows the admission: the state depends on the nodes.
        let state_says_so = || {
            (self.nodes.is_managed() && schema.conditions) || reported.state == self.state(domain)
        };
        let not_isolated = *admission == Admission::NotIsolated;
        state_says_so()
            && (!schema.conditions || condition_says_so())
            && (!schema.conditions || reported.not_isolated.is_some() == not_isolated)
            && (!schema.channel || reported.channel == admission.channel(domain))
            && (!schema.observed_generation || reported.observed_generation == domain.generation)
    }

    /// The condition about nodes. A domain that is not admitted has no claims, and so none.
    fn readiness(&self, domain: &Domain) -> Option<Readiness> {
        let admitted = self.admission.is_admitted();
        self.nodes.readiness(domain).filter(|_| admitted)
    }

    fn conditions(&self, domain: &Domain, now: Timestamp) -> Value {
        let notice = self.notice.as_ref();
        let readiness = self.readiness(domain);
        let not_isolated = self.admission == Admission::NotIsolated;
        let conditions = [
            Some(self.admission_condition(domain, now)),
            readiness.map(|readiness| readiness.condition(domain, now)),
            notice.map(|notice| notice.condition(domain, now)),
            not_isolated.then(|| not_isolated_condition(domain, now)),
        ];
        conditions.into_iter().flatten().collect()
    }

    fn admission_condition(&self, domain: &Domain, now: Timestamp) -> Value {
        let status = self.admission.condition_status();
        let reported = domain.reported.as_ref();
        let before = reported.and_then(|reported| reported.ready.as_ref());
        let since = before
            .filter(|condition| *condition.status == *status)
            .map_or(now, |condition| condition.since);
        json!({
            "type": READY_CONDITION,
            "status": status,
            "reason": self.admission.reason(),
            "message": self.message(),
            "observedGeneration": domain.generation,
            "lastTransitionTime": time(since),
        })
    }
}

/// The status as a server-side apply patch for the object with this UID. It contains only the fields that
/// the controller owns, so that fields of other writers stay. Conditions and nodes that are not in the
/// report are removed. `lastTransitionTime` is `now` only if the condition's status changes.
// req: CD-8, MODE-21
pub fn status_patch(
    domain: &Domain,
    report: &Report,
    schema: StatusSchema,
    now: Timestamp,
) -> Value {
    let state = json!(report.state(domain));
    let mut status = Map::from_iter([("status".to_owned(), state)]);
    if let Some(nodes) = report.nodes.of(domain).filter(|nodes| !nodes.is_empty()) {
        status.insert("nodes".to_owned(), json!(nodes));
    }
    if schema.conditions {
        let conditions = report.conditions(domain, now);
        status.insert("conditions".to_owned(), conditions);
    }
    if schema.observed_generation {
        status.insert("observedGeneration".to_owned(), json!(domain.generation));
    }
    let admission = &report.admission;
    if let Some(channel) = admission.channel(domain).filter(|_| schema.channel) {
        status.insert("channel".to_owned(), json!(channel));
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "ComputeDomain",
        "metadata": {
            "name": domain.name(),
            "namespace": domain.namespace(),
            // A new ComputeDomain of the same name must not get this status.
            "uid": domain.uid().as_str(),
        },
        "status": status,
    })
}

// req: CHANNEL-13
fn not_isolated_condition(domain: &Domain, now: Timestamp) -> Value {
    let reported = domain.reported.as_ref();
    let since = reported.and_then(|reported| reported.not_isolated);
    json!({
        "type": NOT_ISOLATED,
        "status": "True",
        "reason": NOT_ISOLATED_REASON,
        "message": NOT_ISOLATED_MESSAGE,
        "observedGeneration": domain.generation,
        "lastTransitionTime": time(since.unwrap_or(now)),
    })
}

#[cfg(test)]
mod tests;
