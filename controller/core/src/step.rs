use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use serde_json::Value;

use crate::finalizer;
use crate::template::{Role, claim_template, owner, role};
use crate::{Domain, Refusal, TemplateRef, Verdict};

/// The claim templates that concern one ComputeDomain.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Every template that carries the domain's UID, in any namespace.
    pub labelled: Vec<ResourceClaimTemplate>,
    /// The template that has the name and namespace of the domain's own, whosever it is.
    pub named: Option<ResourceClaimTemplate>,
}

/// What to do next. Each but the last is one request; afterwards [`next`] is asked again.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Put our finalizer on the ComputeDomain, before anything that it has to clean up, with this
    /// JSON patch.
    AddFinalizer(Value),
    /// Create this template; a template of the same name must not be taken over.
    CreateTemplate(Box<ResourceClaimTemplate>),
    /// Delete a template of ours.
    DeleteTemplate(TemplateRef),
    /// Take our finalizer off a template that is being deleted, with this JSON patch.
    ReleaseTemplate(TemplateRef, Value),
    /// Take our finalizer off the ComputeDomain, the last thing, with this JSON patch.
    RemoveFinalizer(Value),
    /// Write the verdict into the status.
    WriteStatus(Verdict),
    /// Nothing, until something changes.
    Rest(Outcome),
}

/// How a ComputeDomain stands when there is nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its template exists and its status says so.
    Admitted,
    /// Its status says why not; only an unreadable one's cannot.
    Refused(Refusal),
    /// It is deleted, but somebody else's finalizer holds its template.
    Held(TemplateRef),
    /// It is deleted and nothing of ours is left.
    Gone,
}

/// Decides the next step.
pub fn next(domain: &Domain, observed: &Observed) -> Step {
    if domain.deleted() {
        next_deleted(domain, observed)
    } else {
        next_live(domain, observed)
    }
}

fn next_live(domain: &Domain, observed: &Observed) -> Step {
    match wanted(domain, observed) {
        // A status that cannot be read cannot be compared: writing it would never end.
        Err(refusal @ Refusal::Unreadable { .. }) => Step::Rest(Outcome::Refused(refusal)),
        Err(refusal) => settle(domain, Verdict::Refused(refusal)),
        Ok(_) if !finalizer::is_on(domain.metadata()) => {
            Step::AddFinalizer(finalizer::add(domain.metadata()))
        }
        Ok(template) => match &observed.named {
            None => Step::CreateTemplate(Box::new(template)),
            // Somebody deleted it under a live domain: let it go, then make it anew.
            Some(own) if terminating(own) => {
                release(own).unwrap_or_else(|held| Step::Rest(Outcome::Held(held)))
            }
            Some(_) => settle(domain, Verdict::Admitted),
        },
    }
}

/// The template that the domain should have, or why it gets none.
fn wanted(domain: &Domain, observed: &Observed) -> Result<ResourceClaimTemplate, Refusal> {
    let template = claim_template(domain)?;
    if let Some(leftover) = observed.leftover(domain) {
        return Err(Refusal::DriverManaged { leftover });
    }
    match &observed.named {
        Some(other) if role(other, domain) != Role::Workload => Err(Refusal::NameTaken {
            name: TemplateRef::of(other).name,
            owner: owner(other),
        }),
        _ => Ok(template),
    }
}

fn settle(domain: &Domain, verdict: Verdict) -> Step {
    if !verdict.is_in(domain.status()) {
        return Step::WriteStatus(verdict);
    }
    Step::Rest(match verdict {
        Verdict::Admitted => Outcome::Admitted,
        Verdict::Refused(refusal) => Outcome::Refused(refusal),
    })
}

fn next_deleted(domain: &Domain, observed: &Observed) -> Step {
    let own: Vec<_> = observed
        .labelled
        .iter()
        .filter(|template| role(template, domain) == Role::Workload)
        .collect();
    if let Some(live) = own.iter().find(|template| !terminating(template)) {
        return Step::DeleteTemplate(TemplateRef::of(live));
    }
    // All are going: first those that wait for us, then those that wait for others.
    let mut held = None;
    for template in own {
        match release(template) {
            Ok(step) => return step,
            Err(other) => held = Some(other),
        }
    }
    match held {
        Some(template) => Step::Rest(Outcome::Held(template)),
        None => finalizer::remove(domain.metadata())
            .map_or(Step::Rest(Outcome::Gone), Step::RemoveFinalizer),
    }
}

/// Takes our finalizer off a terminating template; an error names one that others hold.
fn release(template: &ResourceClaimTemplate) -> Result<Step, TemplateRef> {
    let reference = TemplateRef::of(template);
    match finalizer::remove(&template.metadata) {
        Some(patch) => Ok(Step::ReleaseTemplate(reference, patch)),
        None => Err(reference),
    }
}

fn terminating(template: &ResourceClaimTemplate) -> bool {
    template.metadata.deletion_timestamp.is_some()
}

// === impl Observed ===

impl Observed {
    /// An object that the driver-managed mode made for this domain and that still exists. Its
    /// daemon template is made before its `DaemonSet` and named like it, so one kind suffices.
    pub fn leftover(&self, domain: &Domain) -> Option<TemplateRef> {
        let daemon = |template: &&ResourceClaimTemplate| role(template, domain) == Role::Daemon;
        self.labelled.iter().find(daemon).map(TemplateRef::of)
    }
}

#[cfg(test)]
mod tests;
