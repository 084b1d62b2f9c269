use compute_domain_api::crd::ComputeDomainState;
use compute_domain_api::names::API_VERSION;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::domain::Domain;
use crate::rejection::{CHANNEL_ASSIGNED_REASON, Rejection};
use crate::reported::{NOT_ISOLATED, READY_CONDITION, time};
use crate::waiting::Notice;

/// Reason of the condition and the event of an admitted ComputeDomain.
const ADMITTED_REASON: &str = "Admitted";

/// Reason of the condition of a ComputeDomain that keeps channel 0.
const NOT_ISOLATED_REASON: &str = "ReadyBeforeIsolation";

/// Message of the same.
const NOT_ISOLATED_MESSAGE: &str = "the ComputeDomain was Ready before each got an IMEX channel of its own, so its pods share channel 0 with those of all others that were; to isolate it, delete it and create it again";

/// Whether a ComputeDomain is admitted: what its status reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its template exists. This says nothing about IMEX on any node.
    Admitted,
    /// So it does; and where every ComputeDomain has a channel of its own, it keeps channel 0.
    NotIsolated,
    /// It has this channel now, and gets its template next.
    Assigned(u32),
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

    /// The channel and no other optional field: to find out whether there is that one.
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
    /// The value of `status.status`.
    pub fn state(&self) -> ComputeDomainState {
        match self {
            Self::Admitted | Self::NotIsolated => ComputeDomainState::Ready,
            Self::Assigned(_) | Self::Rejected(_) => ComputeDomainState::NotReady,
        }
    }

    /// Reason of the condition and the event. Stable.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Admitted | Self::NotIsolated => ADMITTED_REASON,
            Self::Assigned(_) => CHANNEL_ASSIGNED_REASON,
            Self::Rejected(rejection) => rejection.reason(),
        }
    }

    /// Message of the condition and the event: one line for a person.
    pub fn message(&self) -> String {
        match self {
            Self::Admitted | Self::NotIsolated => {
                "the ResourceClaimTemplate for the workload exists; running IMEX on the nodes is up to the operator".to_owned()
            }
            Self::Assigned(number) => {
                format!("IMEX channel {number} belongs to the ComputeDomain; its ResourceClaimTemplate is being created")
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
        self.state() == ComputeDomainState::Ready
    }

    /// The channel that the status has to say: once it says one, for ever.
    // req: CHANNEL-8
    fn channel(&self, domain: &Domain) -> Option<u32> {
        domain.channel().or(match self {
            Self::Assigned(number) => Some(*number),
            Self::NotIsolated => Some(0),
            Self::Admitted | Self::Rejected(_) => None,
        })
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
        let not_isolated = *self == Self::NotIsolated;
        reported.state == self.state()
            && (!schema.conditions || condition_says_so())
            && (!schema.conditions || reported.not_isolated.is_some() == not_isolated)
            && (!schema.channel || reported.channel == self.channel(domain))
            && (!schema.observed_generation || reported.observed_generation == domain.generation)
    }
}

/// The status as a server-side apply patch. It contains the fields that the controller owns and no
/// others, so that what other writers add stays. `lastTransitionTime` is `now` only if the
/// condition's status changes. Without `notice`, a condition that had it goes. It applies only to the object with this UID.
// req: CD-8
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
        let not_isolated = *admission == Admission::NotIsolated;
        let not_isolated = not_isolated.then(|| not_isolated_condition(domain, now));
        let conditions = [ready].into_iter().chain(notice).chain(not_isolated);
        let conditions = conditions.collect();
        status.insert("conditions".to_owned(), conditions);
    }
    if schema.observed_generation {
        status.insert("observedGeneration".to_owned(), json!(domain.generation));
    }
    if let Some(channel) = admission.channel(domain).filter(|_| schema.channel) {
        status.insert("channel".to_owned(), json!(channel));
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
