//! Decides about orphaned templates. Their ComputeDomain was deleted while a template was being created, its
//! finalizer was removed by hand, or a backup was restored.

use std::sync::Arc;

use super::decision::{Decision, Outcome, Request};
use super::find;
use super::finding;
use super::findings::Findings;
use crate::lifecycle::{Event, State};
use crate::observed_template::ObservedTemplate;

/// The first request that one of the templates needs. Templates of the Go driver's driver-managed mode are never
/// changed.
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
    let reference = template.reference();
    let looked_up = findings.absent_in.contains(&reference.namespace);
    let state = if looked_up {
        State::Absent
    } else {
        State::Missing
    };
    let delete = || Some(Request::DeleteTemplate(reference.clone()));
    let (event, resolution) = match find::release(template, findings) {
        Ok(Some(release)) => (Event::TemplateTerminating, Some(release)),
        Err(_) => (Event::TemplateBlocked, None),
        // Labels alone are no proof: any user can set them on another template.
        Ok(None) if template.is_ours() => (Event::TemplatePresent, delete()),
        Ok(None) => (Event::TemplateAltered, delete()),
    };
    let look_up = Request::LookUpDomain {
        namespace: reference.namespace.clone(),
        name: template.domain_name().map(Into::into),
    };
    finding::request(state, event, resolution, look_up)
}
