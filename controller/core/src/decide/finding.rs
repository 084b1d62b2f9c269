//! The event of the state machine that follows from the objects, and its resolution.

use super::decision::{Decision, Outcome, Request};
use super::findings::Findings;
use crate::domain::Domain;
use crate::lifecycle::{Action, Event, State};
use crate::rejection::Rejection;
use crate::status::Admission;

/// The event of a ComputeDomain that exists.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) event: Event,
    /// The decision for [`Action::Resolve`].
    pub(super) resolution: Decision,
}

// === impl Finding ===

impl Finding {
    /// An event that this request resolves.
    pub(super) fn send(event: Event, request: Request) -> Self {
        Self {
            event,
            resolution: Decision::Send(request),
        }
    }

    /// The event that there is no template. No request resolves it.
    pub(super) fn absent(event: Event) -> Self {
        Self {
            event,
            resolution: Decision::Done(Outcome::Gone),
        }
    }
}

/// The request for a template or a Lease, if the state of its ComputeDomain requires one.
pub(super) fn request(
    state: State,
    event: Event,
    resolution: Option<Request>,
    look_up: Request,
) -> Option<Request> {
    match state.on(event).action {
        Action::Resolve => resolution,
        Action::LookUpDomain => Some(look_up),
        // The others are about the ComputeDomain itself.
        _ => None,
    }
}

/// Writes the status, unless it is up to date or cannot be read.
pub(super) fn report(domain: &Domain, admission: Admission, findings: &Findings) -> Decision {
    let unreadable = matches!(domain.wanted(), Err(Rejection::Unreadable { .. }));
    if admission.is_admitted() && findings.waiting.needs_count(domain) {
        return Decision::Send(Request::CountNodes);
    }
    let report = findings.report(domain, admission);
    let notice = report.notice.is_some();
    let noticed = !findings.schema.conditions || notice == domain.reports_nodes_without_clique();
    let is_reported = noticed && report.is_reported_in(domain, findings.schema);
    if !unreadable && !is_reported {
        return Decision::Send(Request::WriteStatus(report.admission));
    }
    Decision::Done(match report.admission {
        Admission::Admitted | Admission::NotIsolated | Admission::Assigned(_) => Outcome::Admitted,
        Admission::Rejected(rejection) => Outcome::Rejected(rejection),
    })
}
