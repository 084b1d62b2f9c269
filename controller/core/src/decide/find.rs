//! What there is to be done about a ComputeDomain that exists.

use std::sync::Arc;

use compute_domain_api::AllocationMode;

use super::channel;
use super::decision::Request;
use super::finding::Finding;
use super::findings::Findings;
use crate::domain::Domain;
use crate::index::Observed;
use crate::nodes::Nodes;
use crate::observed_template::{ObservedTemplate, Target};
use crate::rejection::Rejection;
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
        return match most_urgent(own, findings) {
            Some(finding) => finding,
            None if findings.has_no_template || domain.template_name().is_err() => {
                Finding::TemplateAbsent
            }
            None => Finding::TemplateUnseen,
        };
    }
    match reason_to_reject(domain, observed, findings, driver_namespaces) {
        Some(rejection) => Finding::Rejected(rejection),
        None => {
            channel::find(domain, observed, findings).unwrap_or_else(|| live(domain, own, findings))
        }
    }
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
fn reason_to_reject(
    domain: &Domain,
    observed: &Observed,
    findings: &Findings,
    driver_namespaces: &[String],
) -> Option<Rejection> {
    if let Err(rejection) = domain.template_name() {
        return Some(rejection);
    }
    let templates = || observed.templates.iter().map(|template| &**template);
    if let Some(template) = templates().find(|template| template.is_of_driver(driver_namespaces)) {
        return Some(Rejection::DriverManaged {
            object: template.reference().clone(),
            uid: domain.uid().to_string(),
            removes: findings.nodes != Nodes::Unmanaged,
        });
    }
    let in_the_way = |template: &&ObservedTemplate| {
        domain.wants(template.reference()) && !template.is_for_workload()
    };
    templates()
        .find(in_the_way)
        .map(|template| Rejection::NameTaken {
            name: template.reference().name.to_string(),
            owner: format!(
                "{}, but is not for its workload",
                template.owner(template.is_of(domain).then_some(domain))
            ),
        })
}

/// What there is to be done about the template of a domain that is to have one. Its name is unique, so
/// there is one at most.
fn live<'a>(
    domain: &Domain,
    mut own: impl Iterator<Item = &'a ObservedTemplate>,
    findings: &Findings,
) -> Finding {
    let Some(template) = own.next() else {
        return match &findings.refusal {
            Some(refusal) => Finding::Rejected(refusal.clone()),
            None => Finding::TemplateAbsent,
        };
    };
    let reference = template.reference().clone();
    match deletion_state(template, findings) {
        Some(Finding::TemplateBlocked(_, why)) => Finding::Rejected(why),
        Some(finding) => finding,
        None if has_lost_label(template, findings) || is_altered(template, domain, findings) => {
            match &findings.refusal {
                // Another one could not be created.
                Some(refusal @ Rejection::TemplateRefused { .. }) => {
                    Finding::Rejected(refusal.clone())
                }
                _ => Finding::TemplateAltered(reference),
            }
        }
        None => Finding::TemplatePresent(reference),
    }
}

/// What is to be done first about the templates of a domain that is being deleted: delete, then
/// remove our finalizer, then wait.
fn most_urgent<'a>(
    templates: impl Iterator<Item = &'a ObservedTemplate>,
    findings: &Findings,
) -> Option<Finding> {
    let mut first = None;
    for template in templates {
        match (deletion_state(template, findings), &first) {
            (None, _) => return Some(Finding::TemplatePresent(template.reference().clone())),
            (Some(_), Some(Finding::TemplateTerminating(..))) => {}
            (deleting, _) => first = deleting,
        }
    }
    first
}

/// How far the deletion of a template is; `None` if it is not being deleted.
pub(super) fn deletion_state(template: &ObservedTemplate, findings: &Findings) -> Option<Finding> {
    let reference = template.reference().clone();
    if let Some(message) = findings.kept.get(&reference.uid) {
        let why = Rejection::TemplateKept {
            template: reference.clone(),
            message: message.clone(),
        };
        return Some(Finding::TemplateBlocked(reference, why));
    }
    if !template.is_being_deleted() {
        return None;
    }
    if let Some(patch) = template.finalizer_removal() {
        return Some(Finding::TemplateTerminating(reference, patch));
    }
    let why = Rejection::TemplateHeld {
        template: reference.clone(),
    };
    Some(Finding::TemplateBlocked(reference, why))
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
