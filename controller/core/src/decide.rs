//! From what is known to the next request: reads state and event off the objects, asks
//! [`crate::lifecycle`] for the action, and builds its request.

mod find;
mod orphans;

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::Value;

use crate::content::Content;
use crate::domain::Domain;
use crate::finalizer;
use crate::index::Observed;
use crate::lifecycle::{Action, Event, State, Transition};
use crate::observed_template::ObservedTemplate;
use crate::rejection::Rejection;
use crate::status::{Admission, Reported, StatusSchema};
use crate::template::claim_template;
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
    /// Find out what the API server would store for this template, without creating it.
    DryRunTemplate(Box<ResourceClaimTemplate>),
    /// Delete a template of ours.
    DeleteTemplate(TemplateRef),
    /// Remove our finalizer from a template that is being deleted, with this JSON patch.
    RemoveTemplateFinalizer(TemplateRef, Value),
    /// Remove our finalizer from the ComputeDomain, with this JSON patch. The last request.
    RemoveFinalizer(Value),
    /// Write this into the status.
    WriteStatus(Admission),
    /// Read whether this namespace has the ComputeDomain: the one of that name, or if there is no
    /// name, any with the UID.
    LookUpDomain {
        /// The namespace.
        namespace: Box<str>,
        /// Its name.
        name: Option<Box<str>>,
    },
    /// Read the template of this name, in the domain's namespace.
    LookUpTemplate {
        /// Its name.
        name: Box<str>,
    },
}

/// How a reconcile ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its template exists, and its status says so.
    Admitted,
    /// Its status reports the reason, except for [`Rejection::Unreadable`]: of such an object the
    /// status could not be compared, and would be written again by every reconcile.
    Rejected(Rejection),
    /// The ComputeDomain is being deleted, and only finalizers of others keep this template.
    Blocked(TemplateRef),
    /// It does not exist or is about to go, and nothing of ours is left.
    Gone,
}

/// What one reconcile has found out by its requests, and the watches do not tell.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Why the API server does not let us create the template.
    pub refusal: Option<Rejection>,
    /// The namespaces in which the API server has no ComputeDomain of this UID.
    pub absent_in: Vec<Box<str>>,
    /// A template of ours whose label somebody has removed.
    pub unlabelled: Option<ObservedTemplate>,
    /// Whether the API server has no template of the wanted name, or that of somebody else.
    pub has_no_template: bool,
    /// What the API server stores for the template that we would create; `None`: not known.
    pub stored: Option<Content>,
    /// The fields that the CRD has.
    pub schema: StatusSchema,
}

/// The state of a template with the data for its requests: an [`Event`].
#[derive(Debug)]
enum Finding {
    Rejected(Rejection),
    TemplateAbsent,
    TemplateUnseen,
    TemplatePresent(TemplateRef),
    TemplateAltered(TemplateRef),
    /// With the patch that removes our finalizer.
    TemplateTerminating(TemplateRef, Value),
    TemplateBlocked(TemplateRef),
}

/// Decides what to do about one UID of a ComputeDomain. `driver_namespaces` are those in which the
/// driver-managed mode keeps its objects.
///
/// Pure: the same arguments always lead to the same decision. The controller makes the request,
/// learns what it changed, and calls this again until the decision is [`Decision::Done`].
///
/// What is observed may be old: every request tests what it relies on. The one decision that an old
/// copy could make wrong, that a ComputeDomain does not exist, is made after a look-up.
pub fn decide(observed: &Observed, findings: &Findings, driver_namespaces: &[String]) -> Decision {
    let Some(domain) = observed.domain.as_deref() else {
        return orphans::decide(&observed.templates, findings, driver_namespaces);
    };
    match decide_on(domain, observed, findings, driver_namespaces) {
        // Last, so that an object that anybody can make is in the way of nothing.
        Decision::Done(outcome) => match find::stray(&observed.templates, driver_namespaces) {
            Some(request) => Decision::Send(request),
            None => Decision::Done(outcome),
        },
        send @ Decision::Send(_) => send,
    }
}

fn decide_on(
    domain: &Domain,
    observed: &Observed,
    findings: &Findings,
    driver_namespaces: &[String],
) -> Decision {
    let finding = find::find(domain, observed, findings, driver_namespaces);
    // A template can only be altered if what the API server stores is known: an older one leaves
    // out fields, and would be asked to repair the template for ever.
    if matches!(finding, Finding::TemplateAltered(_))
        && findings.unlabelled.is_none()
        && findings.stored.is_none()
        && !domain.is_being_deleted()
    {
        return match claim_template(domain) {
            Ok(template) => Decision::Send(Request::DryRunTemplate(Box::new(template))),
            Err(rejection) => report(domain, Admission::Rejected(rejection), findings),
        };
    }
    let Transition { action, .. } = state(domain).on(finding.event());
    act(domain, action, finding, findings)
}

fn act(domain: &Domain, action: Action, finding: Finding, findings: &Findings) -> Decision {
    let uid = domain.uid().as_str();
    match (action, finding) {
        (Action::AddFinalizer, _) => {
            let patch = finalizer::add(uid, &domain.finalizers);
            Decision::Send(Request::AddFinalizer(patch))
        }
        (Action::CreateTemplate, _) => match claim_template(domain) {
            Ok(template) => Decision::Send(Request::CreateTemplate(Box::new(template))),
            Err(rejection) => report(domain, Admission::Rejected(rejection), findings),
        },
        (Action::ReportAdmission, _) => report(domain, Admission::Admitted, findings),
        (Action::ReportRejection, Finding::Rejected(rejection)) => {
            report(domain, Admission::Rejected(rejection), findings)
        }
        (
            Action::DeleteTemplate,
            Finding::TemplatePresent(template) | Finding::TemplateAltered(template),
        ) => Decision::Send(Request::DeleteTemplate(template)),
        (Action::RemoveTemplateFinalizer, Finding::TemplateTerminating(template, patch)) => {
            Decision::Send(Request::RemoveTemplateFinalizer(template, patch))
        }
        (Action::Wait, Finding::TemplateBlocked(template)) => {
            let held = Rejection::TemplateHeld {
                template: template.clone(),
            };
            match report(domain, Admission::Rejected(held), findings) {
                Decision::Done(_) => Decision::Done(Outcome::Blocked(template)),
                write @ Decision::Send(_) => write,
            }
        }
        (Action::RemoveFinalizer, _) => finalizer::remove(uid, &domain.finalizers)
            .map_or(Decision::Done(Outcome::Gone), |patch| {
                Decision::Send(Request::RemoveFinalizer(patch))
            }),
        (Action::LookUpTemplate, _) => match domain.template_name() {
            Ok(name) => Decision::Send(Request::LookUpTemplate { name: name.into() }),
            Err(_) => Decision::Done(Outcome::Gone),
        },
        // Beside `Nothing`, these would be actions on a template or a rejection that was not
        // found. The table has none; a test goes through all of it.
        (
            Action::Nothing
            | Action::ReportRejection
            | Action::DeleteTemplate
            | Action::RemoveTemplateFinalizer
            | Action::LookUpDomain
            | Action::Wait,
            _,
        ) => Decision::Done(Outcome::Gone),
    }
}

/// The state that the ComputeDomain shows.
fn state(domain: &Domain) -> State {
    let admission = domain.reported.as_ref().and_then(Reported::admission);
    let live = match (domain.has_finalizer(), admission) {
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

/// Writes the status, unless it says so already or cannot be read.
fn report(domain: &Domain, admission: Admission, findings: &Findings) -> Decision {
    let unreadable = matches!(domain.wanted(), Err(Rejection::Unreadable { .. }));
    if !unreadable && !admission.is_reported_in(domain, findings.schema) {
        return Decision::Send(Request::WriteStatus(admission));
    }
    Decision::Done(match admission {
        Admission::Admitted => Outcome::Admitted,
        Admission::Rejected(rejection) => Outcome::Rejected(rejection),
    })
}

// === impl Findings ===

impl Findings {
    /// Before the first request.
    pub fn new(schema: StatusSchema) -> Self {
        Self {
            refusal: None,
            absent_in: Vec::new(),
            unlabelled: None,
            has_no_template: false,
            stored: None,
            schema,
        }
    }
}

// === impl Finding ===

impl Finding {
    fn event(&self) -> Event {
        match self {
            Self::Rejected(_) => Event::Rejected,
            Self::TemplateAbsent => Event::TemplateAbsent,
            Self::TemplateUnseen => Event::TemplateUnseen,
            Self::TemplatePresent(_) => Event::TemplatePresent,
            Self::TemplateAltered(_) => Event::TemplateAltered,
            Self::TemplateTerminating(..) => Event::TemplateTerminating,
            Self::TemplateBlocked(_) => Event::TemplateBlocked,
        }
    }
}

#[cfg(test)]
mod tests;
