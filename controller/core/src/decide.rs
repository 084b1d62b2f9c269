//! From what is known to the next request: reads state and event off the objects, asks
//! [`crate::lifecycle`] for the action, and builds its request.

mod channel;
mod decision;
mod find;
mod finding;
mod findings;
mod orphans;

use compute_domain_api::crd::ComputeDomainState;
use compute_domain_api::names::FINALIZER;
pub use decision::{Decision, Outcome, Request};
use finding::Finding;
pub use findings::Findings;

use crate::channel_lease::lease_of;
use crate::channels::ObservedChannels;
use crate::domain::Domain;
use crate::finalizer;
use crate::index::Observed;
use crate::lifecycle::{Action, Event, State, Transition};
use crate::rejection::Rejection;
use crate::reported::Reported;
use crate::status::Admission;
use crate::template::claim_template;

/// Decides what to do about one UID of a ComputeDomain. `driver_namespaces` are those in which the
/// driver-managed mode keeps its objects.
///
/// Pure: the same arguments always lead to the same decision. The controller makes the request,
/// learns what it changed, and calls this again until the decision is [`Decision::Done`].
///
/// What is observed may be old: every request tests what it relies on. The one decision that an old
/// copy could make wrong, that a ComputeDomain does not exist, is made after a look-up.
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
    // Last, so that an object that anybody can make is in the way of nothing.
    let stray =
        domain.and_then(|domain| find::stray(domain, templates, findings, driver_namespaces));
    let rest = stray.or_else(|| channel::rest(domain.map(state), observed, findings));
    rest.map_or(Decision::Done(outcome), Decision::Send)
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
        return match claim_template(domain, findings.sharing) {
            Ok(template) => Decision::Send(Request::DryRunTemplate(Box::new(template))),
            Err(rejection) => report(domain, Admission::Rejected(rejection), findings),
        };
    }
    // Before the first Lease of all: it would be of no use.
    let gives = matches!(
        finding,
        Finding::ChannelWanted(_) | Finding::ChannelUnreported(_)
    );
    if gives && !findings.channel_tried {
        return Decision::Send(Request::TryChannel);
    }
    let Transition { action, .. } = state(domain).on(finding.event());
    match &observed.channels {
        None => act(domain, action, finding, findings),
        Some(channels) => act_on_channels(domain, channels, action, finding, findings),
    }
}

/// Where every ComputeDomain has a channel of its own.
fn act_on_channels(
    domain: &Domain,
    channels: &ObservedChannels,
    action: Action,
    finding: Finding,
    findings: &Findings,
) -> Decision {
    let lease = |number, rebuilt| Box::new(lease_of(domain, number, rebuilt, channels.now));
    match (action, finding) {
        (Action::TakeChannel, Finding::ChannelWanted(number)) => {
            Decision::Send(Request::CreateLease(number, lease(number, false)))
        }
        (Action::RebuildChannel, Finding::ChannelLost(number)) => {
            Decision::Send(Request::CreateLease(number, lease(number, true)))
        }
        (Action::ReportChannel, Finding::ChannelUnreported(number)) => {
            report(domain, Admission::Assigned(number), findings)
        }
        (Action::KeepChannel, Finding::ChannelUsedAgain(lease)) => {
            let patch = lease.taken_back();
            Decision::Send(Request::ChangeLease(lease, patch))
        }
        (Action::ReportAdmission, _) if domain.channel().unwrap_or_default() == 0 => {
            report(domain, Admission::NotIsolated, findings)
        }
        (action, finding) => act(domain, action, finding, findings),
    }
}

// req: CD-10
fn act(domain: &Domain, action: Action, finding: Finding, findings: &Findings) -> Decision {
    let uid = domain.uid().as_str();
    match (action, finding) {
        (Action::AddFinalizer, _) => {
            let patch = finalizer::add(uid, &domain.finalizers);
            Decision::Send(Request::AddFinalizer(patch))
        }
        (Action::CreateTemplate, _) => match claim_template(domain, findings.sharing) {
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
        (Action::Wait, Finding::TemplateBlocked(template, why)) => {
            match report(domain, Admission::Rejected(why), findings) {
                Decision::Done(_) => Decision::Done(Outcome::Blocked(template)),
                write @ Decision::Send(_) => write,
            }
        }
        (Action::RemoveFinalizer, _) => {
            // First, since nothing writes its status afterwards.
            if let Some(why) = being_deleted(domain)
                && let write @ Decision::Send(_) =
                    report(domain, Admission::Rejected(why), findings)
            {
                return write;
            }
            finalizer::remove(uid, &domain.finalizers)
                .map_or(Decision::Done(Outcome::Gone), |patch| {
                    Decision::Send(Request::RemoveFinalizer(patch))
                })
        }
        (Action::LookUpTemplate, _) => match domain.template_name() {
            Ok(name) => Decision::Send(Request::LookUpTemplate { name: name.into() }),
            Err(_) => Decision::Done(Outcome::Gone),
        },
        // Beside `Nothing`, these would be actions on a template, a Lease or a rejection that was not
        // found. The table has none; a test goes through all of it.
        (
            Action::Nothing
            | Action::TakeChannel
            | Action::ReportChannel
            | Action::RebuildChannel
            | Action::KeepChannel
            | Action::ReleaseChannel
            | Action::FreeChannel
            | Action::RestoreLease
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

/// What the status of a ComputeDomain has to say that says Ready, and that finalizers of others will keep.
fn being_deleted(domain: &Domain) -> Option<Rejection> {
    let others = domain.finalizers.iter().filter(|it| *it != FINALIZER);
    let finalizers: Vec<_> = others.cloned().collect();
    let admission = domain.reported.as_ref().and_then(Reported::admission);
    let says_ready =
        admission == Some(true) || domain.reported_state() == Some(ComputeDomainState::Ready);
    (says_ready && !finalizers.is_empty()).then_some(Rejection::BeingDeleted { finalizers })
}

/// Writes the status, unless it says so already or cannot be read.
fn report(domain: &Domain, admission: Admission, findings: &Findings) -> Decision {
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

#[cfg(test)]
mod tests;
