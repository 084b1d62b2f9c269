//! Finds out what a ComputeDomain that exists needs next.

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

/// The request for a template that has the domain's label but is not its own, after everything else is done:
///
/// * A template that is being deleted loses our finalizer: a copy, in this namespace or another, or the
///   template of a rejected domain. No other code would ever remove the finalizer.
/// * The template of a former spec is deleted, also while the domain is not Ready. Another domain may wait
///   for its name, and two domains that have swapped names wait for each other.
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

/// Whether the template belongs to the domain: it has the name in the spec, in the domain's namespace. Any
/// user can set the label on another template, and that must not block a deletion. Copies of our templates
/// are removed after the domain is deleted. If the spec has no name, a template with exactly the content that
/// we create belongs to the domain.
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
                "{}, and is not the template for this ComputeDomain's workload",
                template.owner(template.is_of(domain).then_some(domain))
            ),
        }),
        None => Ok(()),
    }
}

/// What the template of a domain needs that should have one. The name is unique, so there is at most one
/// template.
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
        // The API server would reject the new one, too.
        if let Some(refusal @ Rejection::TemplateRefused { .. }) = &findings.refusal {
            return Err(refusal.clone());
        }
        Event::TemplateAltered
    } else {
        Event::TemplatePresent
    };
    Ok(Finding::send(event, delete(template)))
}

/// What the templates of a domain that is being deleted need first: a deletion, then the removal of our
/// finalizer, then waiting.
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

/// The request that removes our finalizer from a template that is being deleted; `None` if it is not being
/// deleted.
///
/// # Errors
/// If something else than our finalizer keeps the template.
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

/// Whether a label was removed or changed.
fn has_lost_label(template: &ObservedTemplate, findings: &Findings) -> bool {
    findings.unlabelled.is_some() || template.target() != Target::Workload
}

/// Whether the template's content differs from the one that we create, as the API server stores it. A
/// template that cannot be decoded is left alone.
///
/// If the domain has its own channel, claims need the ComputeDomain's label: nodes refuse others. Claims of
/// the Go driver's templates have no label.
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
    // In host-managed mode, the Go driver's controller creates a `Single` template for every domain. Pods
    // use it, so this controller keeps it.
    let of_go = || {
        template.may_be_of_go()
            && wanted.allocation_mode == AllocationMode::All
            && is(&AllocationMode::Single)
    };
    !is(&wanted.allocation_mode) && !of_go() && findings.stored != Some(content)
}
