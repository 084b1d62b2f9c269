//! What there is to be done about a ComputeDomain that exists.

use std::sync::Arc;

use compute_domain_api::AllocationMode;

use super::channel;
use super::decision::{Decision, Outcome, Request};
use super::finding::{Finding, report};
use super::findings::Findings;
use crate::domain::Domain;
use crate::index::Observed;
use crate::lifecycle::Event;
use crate::nodes::Nodes;
use crate::observed_template::{ObservedTemplate, Target};
use crate::rejection::Rejection;
use crate::status::Admission;
use crate::template::is_content_of;

pub(super) fn find(
    domain: &Domain,
    observed: &Observed,
    findings: &Findings,
    driver_namespaces: &[String],
) -> Finding {
    let own = observed.templates.iter().map(|template| &**template);
    let own = own.filter(|template| is_own(template, domain) && !template.is_gone());
    let own = own.chain(&findings.unlabelled);
    if let Some(finding) = channel::lost(domain, observed, findings) {
        return finding;
    }
    if domain.is_being_deleted() {
        return match most_urgent(domain, own, findings) {
            Some(finding) => finding,
            None if findings.has_no_template || domain.template_name().is_err() => {
                Finding::absent(Event::TemplateAbsent)
            }
            None => Finding::absent(Event::TemplateUnseen),
        };
    }
    let found = reject(domain, observed, findings, driver_namespaces)
        .and_then(|()| channel::find(domain, observed, findings))
        .and_then(|found| found.map_or_else(|| live(domain, own, findings), Ok));
    found.unwrap_or_else(|rejection| Finding {
        event: Event::Rejected,
        resolution: report(domain, Admission::Rejected(rejection), findings),
    })
}

/// What there is to be done about templates with the domain's label that are not its own, although
/// nothing else is:
///
/// * One that is being deleted and has our finalizer loses it: a copy, in this namespace or another,
///   or that of a rejected domain. Nothing else would ever remove the finalizer.
/// * That of a former spec is deleted, also while the domain is not Ready: others may wait for its
///   name, and two domains that have swapped names for each other.
pub(super) fn stray(
    domain: &Domain,
    templates: &[Arc<ObservedTemplate>],
    findings: &Findings,
    driver_namespaces: &[String],
) -> Option<Request> {
    let mut touchable = templates.iter().filter(|template| {
        !template.is_of_driver(driver_namespaces) && !findings.keeps(template.reference())
    });
    touchable.find_map(|template| {
        let reference = template.reference().clone();
        if template.is_being_deleted() {
            let patch = template.finalizer_removal()?;
            return Some(Request::RemoveTemplateFinalizer(reference, patch));
        }
        let former = template.is_former_of(domain);
        former.then_some(Request::DeleteTemplate(reference))
    })
}

/// Whether the template is the domain's. One under another name or in another namespace is not:
/// anybody can set a label, and what anybody can make must not be in the way of a deletion. What is
/// ours of it is collected once the domain is gone. Only if the spec tells no name, whatever is exactly
/// what we create counts.
fn is_own(template: &ObservedTemplate, domain: &Domain) -> bool {
    if domain.wanted().is_ok() {
        return domain.wants(template.reference()) && template.is_for_workload();
    }
    domain.is_being_deleted() && template.is_of(domain) && template.is_ours()
}

// req: CD-12
fn reject(
    domain: &Domain,
    observed: &Observed,
    findings: &Findings,
    driver_namespaces: &[String],
) -> Result<(), Rejection> {
    domain.template_name()?;
    let templates = || observed.templates.iter().map(|template| &**template);
    if let Some(template) = templates().find(|template| template.is_of_driver(driver_namespaces)) {
        return Err(Rejection::DriverManaged {
            object: template.reference().clone(),
            uid: domain.uid().to_string(),
            removes: findings.nodes != Nodes::Unmanaged,
        });
    }
    let in_the_way = |template: &&ObservedTemplate| {
        domain.wants(template.reference()) && !template.is_for_workload()
    };
    match templates().find(in_the_way) {
        Some(template) => Err(Rejection::NameTaken {
            name: template.reference().name.to_string(),
            owner: format!(
                "{}, but is not for its workload",
                template.owner(template.is_of(domain).then_some(domain))
            ),
        }),
        None => Ok(()),
    }
}

/// What there is to be done about the template of a domain that is to have one. Its name is unique, so
/// there is one at most.
fn live<'a>(
    domain: &Domain,
    mut own: impl Iterator<Item = &'a ObservedTemplate>,
    findings: &Findings,
) -> Result<Finding, Rejection> {
    let Some(template) = own.next() else {
        let refusal = findings.refusal.clone();
        return refusal.map_or_else(|| Ok(Finding::absent(Event::TemplateAbsent)), Err);
    };
    if let Some(release) = release(template, findings)? {
        return Ok(Finding::send(Event::TemplateTerminating, release));
    }
    let event = if has_lost_label(template, findings) || is_altered(template, domain, findings) {
        // Another one could not be created.
        if let Some(refusal @ Rejection::TemplateRefused { .. }) = &findings.refusal {
            return Err(refusal.clone());
        }
        Event::TemplateAltered
    } else {
        Event::TemplatePresent
    };
    Ok(Finding::send(event, delete(template)))
}

/// What is to be done first about the templates of a domain that is being deleted: delete, then
/// remove our finalizer, then wait.
fn most_urgent<'a>(
    domain: &Domain,
    templates: impl Iterator<Item = &'a ObservedTemplate>,
    findings: &Findings,
) -> Option<Finding> {
    let mut first: Option<Finding> = None;
    for template in templates {
        let finding = match release(template, findings) {
            Ok(None) => return Some(Finding::send(Event::TemplatePresent, delete(template))),
            Ok(Some(release)) => Finding::send(Event::TemplateTerminating, release),
            Err(why) => Finding {
                event: Event::TemplateBlocked,
                resolution: match report(domain, Admission::Rejected(why), findings) {
                    Decision::Done(_) => {
                        Decision::Done(Outcome::Blocked(template.reference().clone()))
                    }
                    write @ Decision::Send(_) => write,
                },
            },
        };
        first = first
            .filter(|first| first.event == Event::TemplateTerminating)
            .or(Some(finding));
    }
    first
}

fn delete(template: &ObservedTemplate) -> Request {
    Request::DeleteTemplate(template.reference().clone())
}

/// The request that lets go of a template that is being deleted; `None` if it is not.
///
/// # Errors
/// What keeps it besides our finalizer.
pub(super) fn release(
    template: &ObservedTemplate,
    findings: &Findings,
) -> Result<Option<Request>, Rejection> {
    let reference = template.reference().clone();
    if let Some(message) = findings.kept.get(&reference.uid) {
        return Err(Rejection::TemplateKept {
            template: reference,
            message: message.clone(),
        });
    }
    if !template.is_being_deleted() {
        return Ok(None);
    }
    match template.finalizer_removal() {
        Some(patch) => Ok(Some(Request::RemoveTemplateFinalizer(reference, patch))),
        None => Err(Rejection::TemplateHeld {
            template: reference,
        }),
    }
}

/// Whether somebody has removed one of the labels.
fn has_lost_label(template: &ObservedTemplate, findings: &Findings) -> bool {
    findings.unlabelled.is_some() || template.target() != Target::Workload
}

/// Whether the template asks for something else than the one that we create, as the API server
/// stores it. One that cannot be decoded is left alone: nothing is known of it.
///
/// Nodes give no channel of a ComputeDomain's own to a claim without its label, as those of the Go driver's
/// templates are.
// req: CD-11, MODE-31
fn is_altered(template: &ObservedTemplate, domain: &Domain, findings: &Findings) -> bool {
    let (Some(content), Ok(wanted)) = (template.content(), domain.wanted()) else {
        return false;
    };
    let has_own_channel = domain.channel().is_some_and(|number| number > 0);
    if has_own_channel && !template.labels_claims() {
        return true;
    }
    let uid = domain.uid();
    let is = |mode: &AllocationMode| is_content_of(content, uid, mode);
    // The Go driver's controller makes one of `Single` for every domain in the host-managed mode.
    // Pods use it, so it is kept when this controller takes over.
    let of_go = || {
        template.may_be_of_go()
            && wanted.allocation_mode == AllocationMode::All
            && is(&AllocationMode::Single)
    };
    !is(&wanted.allocation_mode) && !of_go() && findings.stored != Some(content)
}
