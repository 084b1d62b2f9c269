//! Decides the next request: finds state and event from the objects, gets the action from
//! [`crate::lifecycle`], and builds its request.

mod channel;
mod decision;
mod find;
mod finding;
mod findings;
mod orphans;

use compute_domain_api::crd::ComputeDomainState;
use compute_domain_api::names::FINALIZER;
pub use decision::{Decision, Outcome, Request};
use finding::{Finding, report};
pub use findings::Findings;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use crate::domain::Domain;
use crate::finalizer;
use crate::index::Observed;
use crate::lifecycle::{Action, Event, State};
use crate::rejection::Rejection;
use crate::reported::Reported;
use crate::status::Admission;
use crate::template::claim_template;

/// Decides the next request for one UID of a ComputeDomain. `driver_namespaces` are the namespaces in which the
/// Go driver's driver-managed mode keeps its objects.
///
/// A pure function. The controller sends the request, stores the response in the index, and calls this again
/// until the decision is [`Decision::Done`].
///
/// The observed objects may be stale, so every request tests its preconditions. The only decision for which that
/// is not enough, that a ComputeDomain does not exist, is made after a look-up.
// req: CD-24
pub fn decide(observed: &Observed, findings: &Findings, driver_namespaces: &[String]) -> Decision {
    let templates = &observed.templates;
    let domain = observed.domain.as_deref();
    let decision = match domain {
        Some(domain) => decide_on(domain, observed, findings, driver_namespaces),
        None => orphans::decide(templates, findings, driver_namespaces),
    };
    let Decision::Done(outcome) = decision else {
        return decision;
    };
    // Last, so that an object that any user can create blocks nothing else.
    let stray =
        domain.and_then(|domain| find::stray(domain, templates, findings, driver_namespaces));
    let rest = stray.or_else(|| channel::rest(domain.map(state), observed, findings));
    rest.map_or(Decision::Done(outcome), Decision::Send)
}

// req: CD-10
fn decide_on(
    domain: &Domain,
    observed: &Observed,
    findings: &Findings,
    driver_namespaces: &[String],
) -> Decision {
    let Finding { event, resolution } = find::find(domain, observed, findings, driver_namespaces);
    // Whether a template is altered can be decided only if the stored form is known: an older API server drops
    // fields, and the template would be repaired for ever.
    if event == Event::TemplateAltered
        && findings.unlabelled.is_none()
        && findings.stored.is_none()
        && !domain.is_being_deleted()
    {
        return with_template(domain, findings, Request::DryRunTemplate);
    }
    // Without the field in the CRD, a Lease would be useless.
    let gives = matches!(event, Event::ChannelWanted | Event::ChannelUnreported);
    if gives && !findings.channel_tried {
        return Decision::Send(Request::TryChannel);
    }
    match state(domain).on(event).action {
        Action::Resolve => resolution,
        Action::AddFinalizer => {
            let patch = finalizer::add(domain.uid().as_str(), &domain.finalizers);
            Decision::Send(Request::AddFinalizer(patch))
        }
        Action::CreateTemplate => with_template(domain, findings, Request::CreateTemplate),
        Action::ReportAdmission => {
            let has_own = domain.channel().is_some_and(|number| number > 0);
            let admission = if observed.channels.is_none() || has_own {
                Admission::Admitted
            } else {
                Admission::NotIsolated
            };
            report(domain, admission, findings)
        }
        Action::RemoveFinalizer => remove_finalizer(domain, findings),
        Action::LookUpTemplate => match domain.template_name() {
            Ok(name) => Decision::Send(Request::LookUpTemplate { name: name.into() }),
            Err(_) => Decision::Done(Outcome::Gone),
        },
        // A ComputeDomain that exists is never looked up.
        Action::Nothing | Action::LookUpDomain => Decision::Done(Outcome::Gone),
    }
}

/// The request for the template that we create.
fn with_template(
    domain: &Domain,
    findings: &Findings,
    request: fn(Box<ResourceClaimTemplate>) -> Request,
) -> Decision {
    match claim_template(domain, findings.sharing) {
        Ok(template) => Decision::Send(request(Box::new(template))),
        Err(rejection) => report(domain, Admission::Rejected(rejection), findings),
    }
}

fn remove_finalizer(domain: &Domain, findings: &Findings) -> Decision {
    // First, since the status is not written afterwards.
    if let Some(why) = being_deleted(domain)
        && let write @ Decision::Send(_) = report(domain, Admission::Rejected(why), findings)
    {
        return write;
    }
    finalizer::remove(domain.uid().as_str(), &domain.finalizers)
        .map_or(Decision::Done(Outcome::Gone), |patch| {
            Decision::Send(Request::RemoveFinalizer(patch))
        })
}

/// The state of the ComputeDomain.
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

/// The reason for the status of a ComputeDomain that is still reported as Ready and kept by other finalizers.
fn being_deleted(domain: &Domain) -> Option<Rejection> {
    let others = domain.finalizers.iter().filter(|it| *it != FINALIZER);
    let finalizers: Vec<_> = others.cloned().collect();
    let admission = domain.reported.as_ref().and_then(Reported::admission);
    let says_ready =
        admission == Some(true) || domain.reported_state() == Some(ComputeDomainState::Ready);
    (says_ready && !finalizers.is_empty()).then_some(Rejection::BeingDeleted { finalizers })
}

#[cfg(test)]
mod tests;
