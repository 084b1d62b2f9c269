//! What there is to be done about templates whose ComputeDomain does not exist: it was deleted while
//! their creation was under way, its finalizer was removed by hand, or a backup was restored.

use std::sync::Arc;

use super::decision::{Decision, Outcome, Request};
use super::find;
use super::finding::Finding;
use super::findings::Findings;
use crate::lifecycle::{Action, State};
use crate::observed_template::ObservedTemplate;

/// The first request that one of the templates needs. Those of the driver-managed mode are never
/// touched.
// req: CD-22
pub(super) fn decide(
    templates: &[Arc<ObservedTemplate>],
    findings: &Findings,
    driver_namespaces: &[String],
) -> Decision {
    let mut ours = templates
        .iter()
        .filter(|template| !template.is_of_driver(driver_namespaces));
    ours.find_map(|template| request(template, findings))
        .map_or(Decision::Done(Outcome::Gone), Decision::Send)
}

fn request(template: &ObservedTemplate, findings: &Findings) -> Option<Request> {
    let reference = template.reference().clone();
    let looked_up = findings.absent_in.contains(&reference.namespace);
    let state = if looked_up {
        State::Absent
    } else {
        State::Missing
    };
    let finding = match find::deletion_state(template, findings) {
        Some(finding) => finding,
        // Labels alone are no proof: anybody can set them on a template of his own.
        None if template.is_ours() => Finding::TemplatePresent(reference.clone()),
        None => Finding::TemplateAltered(reference.clone()),
    };
    match (state.on(finding.event()).action, finding) {
        (Action::LookUpDomain, _) => Some(Request::LookUpDomain {
            namespace: reference.namespace,
            name: template.domain_name().map(Into::into),
        }),
        (Action::DeleteTemplate, _) => Some(Request::DeleteTemplate(reference)),
        (Action::RemoveTemplateFinalizer, Finding::TemplateTerminating(_, patch)) => {
            Some(Request::RemoveTemplateFinalizer(reference, patch))
        }
        _ => None,
    }
}
