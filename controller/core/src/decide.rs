//! From what was read to the next request: reads state and event off the objects, asks
//! [`crate::lifecycle`] for the action, and builds its request.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::Value;

use crate::domain::Domain;
use crate::finalizer;
use crate::lifecycle::{Action, Event, State, Transition};
use crate::observed::ObservedTemplates;
use crate::rejection::Rejection;
use crate::status::{Admission, reported_admission};
use crate::template::{Role, claim_template, describe_owner, role};
use crate::template_ref::TemplateRef;

/// What a reconcile does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Make this request, and decide again with what it changed.
    Send(Request),
    /// Nothing, until something changes.
    Done(Outcome),
}

/// One API request. A patch of finalizers fails if the object or its list of finalizers has
/// changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Add our finalizer to the ComputeDomain, with this JSON patch.
    AddFinalizer(Value),
    /// Create this template. It has to fail if one of that name exists by now: that may be
    /// somebody else's.
    CreateTemplate(Box<ResourceClaimTemplate>),
    /// Delete a template of ours.
    DeleteTemplate(TemplateRef),
    /// Remove our finalizer from a template that is being deleted, with this JSON patch.
    RemoveTemplateFinalizer(TemplateRef, Value),
    /// Remove our finalizer from the ComputeDomain, with this JSON patch. The last request.
    RemoveFinalizer(Value),
    /// Write this into the status.
    WriteStatus(Admission),
}

/// How a reconcile ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its template exists, and its status says so.
    Admitted,
    /// Its status reports the reason, except for [`Rejection::Unreadable`]: of such an object the
    /// status could not be compared, and would be written again by every reconcile.
    Rejected(Rejection),
    /// This template is being deleted, and only finalizers of others keep it.
    Blocked(TemplateRef),
    /// It is being deleted, and nothing of ours is left.
    Gone,
}

/// What a reconcile found out besides the state: an [`Event`] with the data for its requests.
#[derive(Debug)]
enum Finding {
    Rejected(Rejection),
    TemplateAbsent,
    TemplatePresent(TemplateRef),
    /// With the patch that removes our finalizer.
    TemplateTerminating(TemplateRef, Value),
    TemplateBlocked(TemplateRef),
}

/// Decides what to do for a ComputeDomain.
///
/// Pure: the same objects always lead to the same decision. The controller makes the request,
/// reads what it changed, and calls this again until the decision is [`Decision::Done`]. Both
/// arguments must come from the API server, not from a watch's cache: for a stale copy of a
/// deleted ComputeDomain, the template would be created again.
pub fn decide(domain: &Domain, observed: &ObservedTemplates) -> Decision {
    let finding = find(domain, observed);
    let Transition { action, .. } = state(domain).on(finding.event());
    match (action, finding) {
        (Action::AddFinalizer, _) => {
            Decision::Send(Request::AddFinalizer(finalizer::add(domain.metadata())))
        }
        (Action::CreateTemplate, _) => match claim_template(domain) {
            Ok(template) => Decision::Send(Request::CreateTemplate(Box::new(template))),
            Err(rejection) => report(domain, Admission::Rejected(rejection)),
        },
        (Action::ReportAdmission, _) => report(domain, Admission::Admitted),
        (Action::ReportRejection, Finding::Rejected(rejection)) => {
            report(domain, Admission::Rejected(rejection))
        }
        (Action::DeleteTemplate, Finding::TemplatePresent(template)) => {
            Decision::Send(Request::DeleteTemplate(template))
        }
        (Action::RemoveTemplateFinalizer, Finding::TemplateTerminating(template, patch)) => {
            Decision::Send(Request::RemoveTemplateFinalizer(template, patch))
        }
        (Action::Wait, Finding::TemplateBlocked(template)) => {
            Decision::Done(Outcome::Blocked(template))
        }
        (Action::RemoveFinalizer, _) => finalizer::remove(domain.metadata())
            .map_or(Decision::Done(Outcome::Gone), |patch| {
                Decision::Send(Request::RemoveFinalizer(patch))
            }),
        // Beside `Nothing`, these would be actions on a template or a rejection that was not
        // found. The table has none; a test goes through all of it.
        (
            Action::Nothing
            | Action::ReportRejection
            | Action::DeleteTemplate
            | Action::RemoveTemplateFinalizer
            | Action::Wait,
            _,
        ) => Decision::Done(Outcome::Gone),
    }
}

/// The state that the ComputeDomain shows.
fn state(domain: &Domain) -> State {
    let finalized = finalizer::is_on(domain.metadata());
    let live = match (finalized, reported_admission(domain.status())) {
        (false, Some(false)) => State::Rejected,
        (false, _) => State::New,
        (true, Some(true)) => State::Admitted,
        (true, _) => State::Finalized,
    };
    if domain.is_being_deleted() {
        live.on(Event::Deleted).next
    } else {
        live
    }
}

fn find(domain: &Domain, observed: &ObservedTemplates) -> Finding {
    if domain.is_being_deleted() {
        return template_state(observed.own(domain));
    }
    match reason_to_reject(domain, observed) {
        Some(rejection) => Finding::Rejected(rejection),
        None => template_state(observed.with_expected_name.iter()),
    }
}

fn reason_to_reject(domain: &Domain, observed: &ObservedTemplates) -> Option<Rejection> {
    if let Err(rejection) = domain.template_name() {
        return Some(rejection);
    }
    if let Some(object) = observed.driver_managed(domain) {
        return Some(Rejection::DriverManaged { object });
    }
    let named = observed.with_expected_name.as_ref()?;
    (role(named, domain) != Role::Workload).then(|| Rejection::NameTaken {
        name: TemplateRef::new(named).name,
        owner: describe_owner(named),
    })
}

/// What is to be done first if there are several: delete, then remove our finalizer, then wait.
fn template_state<'a>(templates: impl Iterator<Item = &'a ResourceClaimTemplate>) -> Finding {
    let mut first = Finding::TemplateAbsent;
    for template in templates {
        let reference = TemplateRef::new(template);
        if template.metadata.deletion_timestamp.is_none() {
            return Finding::TemplatePresent(reference);
        }
        match (finalizer::remove(&template.metadata), &first) {
            (_, Finding::TemplateTerminating(..)) => {}
            (Some(patch), _) => first = Finding::TemplateTerminating(reference, patch),
            (None, _) => first = Finding::TemplateBlocked(reference),
        }
    }
    first
}

/// Writes the status, unless it says so already.
fn report(domain: &Domain, admission: Admission) -> Decision {
    let unreadable = matches!(admission, Admission::Rejected(Rejection::Unreadable { .. }));
    if !unreadable && !admission.is_reported_in(domain.status()) {
        return Decision::Send(Request::WriteStatus(admission));
    }
    Decision::Done(match admission {
        Admission::Admitted => Outcome::Admitted,
        Admission::Rejected(rejection) => Outcome::Rejected(rejection),
    })
}

// === impl Finding ===

impl Finding {
    fn event(&self) -> Event {
        match self {
            Self::Rejected(_) => Event::Rejected,
            Self::TemplateAbsent => Event::TemplateAbsent,
            Self::TemplatePresent(_) => Event::TemplatePresent,
            Self::TemplateTerminating(..) => Event::TemplateTerminating,
            Self::TemplateBlocked(_) => Event::TemplateBlocked,
        }
    }
}

#[cfg(test)]
mod tests;
