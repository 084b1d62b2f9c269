//! The processing of responses by the controller.

use std::sync::Arc;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_core::{
    ChannelLease, Content, Domain, Findings, ObservedTemplate, Rejection, Request, TemplateRef,
};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use crate::controller::{Controller, Flow, Pass, Refusal};
use crate::objects::{place, uid};
use crate::server::{Call, Failure, Reply, place_of};

impl Controller {
    /// `request` is the decision; `call` is the last request sent for it.
    pub(super) fn learn(
        &mut self,
        pass: &mut Pass,
        request: &Request,
        call: &Call,
        reply: Result<Reply, Failure>,
    ) -> Flow {
        let reply = match reply {
            Ok(reply) => reply,
            Err(failure) => return self.learn_failure(pass, request, call, failure),
        };
        match (request, call, reply) {
            (Request::TryChannel, ..) => self.channel_tried = true,
            (
                Request::CreateLease(..)
                | Request::RestoreLease(_)
                | Request::ChangeLease(..)
                | Request::DeleteLease(_),
                _,
                reply,
            ) => return self.learn_lease(pass, request, reply),
            (Request::LookUpDomain { namespace, .. }, _, reply) => {
                if matches!(&reply, Reply::Domain(it) if uid(&it.metadata) == &*pass.key) {
                    return Flow::StopUntilLater;
                }
                pass.findings.absent_in.push(namespace.clone());
            }
            (Request::CreateTemplate(_), Call::ReadTemplate(_), reply) => {
                self.found_in_the_way(pass, template(reply));
            }
            (Request::LookUpTemplate { .. } | Request::CreateTemplate(_), _, reply) => {
                self.found_template(pass, template(reply).as_ref());
            }
            (Request::DryRunTemplate(_), _, Reply::Template(stored)) => {
                let content = Content::new(&stored.spec.spec, &pass.key);
                let mode = pass.observed.domain.as_ref().unwrap().allocation_mode();
                self.stored
                    .insert(mode.unwrap().as_str().to_owned(), content);
            }
            (
                Request::DeleteTemplate(asked) | Request::RemoveTemplateFinalizer(asked, _),
                _,
                reply,
            ) => match template(reply) {
                Some(now) if uid(&now.metadata) == &*asked.uid => self.template_changed(pass, &now),
                // A new template has the name, and may be ours, too.
                Some(_) => drop(self.index.remove_template(&asked.uid)),
                None => self.template_gone(pass, asked),
            },
            (_, _, Reply::Domain(domain)) if uid(&domain.metadata) == &*pass.key => {
                self.learn_domain(*domain);
            }
            _ => self.index.remove_domain(&pass.key),
        }
        Flow::Decide
    }

    fn learn_failure(
        &mut self,
        pass: &mut Pass,
        request: &Request,
        call: &Call,
        failure: Failure,
    ) -> Flow {
        match (failure, call) {
            (Failure::AlreadyExists, Call::CreateTemplate(template)) => {
                return Flow::Send(Call::ReadTemplate(place(&template.metadata)));
            }
            (Failure::NotFound, Call::PatchDomain(..) | Call::WriteStatus(..)) => {
                self.index.remove_domain(&pass.key);
            }
            (
                Failure::NotFound,
                Call::DeleteTemplate(template) | Call::PatchTemplate(template, _),
            ) => {
                self.template_gone(pass, template);
            }
            (Failure::AlreadyExists, Call::CreateLease(lease)) => {
                return Flow::Send(Call::ReadLease(place(&lease.metadata).1));
            }
            (Failure::NotFound, Call::ChangeLease(lease, _) | Call::DeleteLease(lease)) => {
                self.index.remove_lease(lease.number(), lease.uid());
            }
            (Failure::Undeclared(message), _) => {
                self.channel_tried |= matches!(call, Call::TryStatus(..));
                let reduced = self.schema.without_undeclared(&message);
                self.schema = reduced.unwrap_or(self.schema);
            }
            // Once is enough: a second failure has another cause.
            (Failure::Outdated, _) if !std::mem::replace(&mut pass.refreshed, true) => {
                return Flow::Send(refresh(request, call));
            }
            _ => return Flow::StopUntilLater,
        }
        Flow::Decide
    }

    /// Stores the Lease from the response, or the one that has its name.
    fn learn_lease(&mut self, pass: &Pass, request: &Request, reply: Reply) -> Flow {
        let now = match reply {
            Reply::Lease(lease) => self.observed_lease(&lease),
            _ => None,
        };
        if let Request::ChangeLease(before, _) | Request::DeleteLease(before) = request
            && now.as_ref().map(ChannelLease::uid) != Some(before.uid())
        {
            self.index.remove_lease(before.number(), before.uid());
        }
        let Some(now) = now else {
            return Flow::Decide;
        };
        let creates = matches!(request, Request::CreateLease(..) | Request::RestoreLease(_));
        if creates && !now.is_labelled() && now.holder() == Some(&pass.key) {
            let patch = now.relabelled();
            return Flow::Send(Call::ChangeLease(Arc::new(now), patch));
        }
        self.index.learn_lease(now, self.now);
        Flow::Decide
    }

    fn learn_domain(&mut self, domain: ComputeDomain) {
        self.index.learn_domain(Domain::new(domain).unwrap());
    }

    /// Stores the state of a template from a response.
    fn template_changed(&mut self, pass: &mut Pass, template: &ResourceClaimTemplate) {
        let observed = ObservedTemplate::new(template);
        let is_gone = observed.is_gone();
        if is_last(pass, observed.reference()) {
            pass.findings.has_no_template = is_gone;
        }
        let unlabelled = &mut pass.findings.unlabelled;
        let of_this = |it: &mut ObservedTemplate| it.reference().uid == observed.reference().uid;
        if let Some(before) = unlabelled.take_if(of_this) {
            *unlabelled = (!is_gone).then(|| before.changed_to(&observed));
        }
        self.index.learn_template(observed);
    }

    fn template_gone(&mut self, pass: &mut Pass, template: &TemplateRef) {
        let unlabelled = &mut pass.findings.unlabelled;
        unlabelled.take_if(|it| it.reference().uid == template.uid);
        if is_last(pass, template) {
            pass.findings.has_no_template = true;
        }
        self.index.remove_template(&template.uid);
    }

    /// Handles the template under the wanted name, if the API server has one.
    fn found_template(&mut self, pass: &mut Pass, found: Option<&ResourceClaimTemplate>) {
        let domain = pass.observed.domain.clone().unwrap();
        let unlabelled = |it| ObservedTemplate::without_label(it, domain.uid());
        let Findings {
            unlabelled: known,
            has_no_template,
            ..
        } = &mut pass.findings;
        *known = found.and_then(unlabelled);
        let ours = found
            .map(ObservedTemplate::new)
            .filter(|it| it.is_of(&domain));
        *has_no_template = ours.is_none() && known.is_none();
        if let Some(ours) = ours {
            self.index.learn_template(ours);
        }
    }

    fn found_in_the_way(&mut self, pass: &mut Pass, found: Option<ResourceClaimTemplate>) {
        self.found_template(pass, found.as_ref());
        let is_taken = std::mem::take(&mut pass.findings.has_no_template);
        let Some(taken) = found.filter(|_| is_taken) else {
            return;
        };
        let (namespace, name) = place(&taken.metadata);
        let taken = ObservedTemplate::new(&taken);
        let owner = taken.owner(self.index.domain(taken.domain_uid()).as_deref());
        let rejection = Rejection::NameTaken { name, owner };
        pass.findings.refusal = Some(rejection.clone());
        let refusal = Refusal {
            rejection,
            namespace,
            is_due: false,
        };
        self.refusals.insert(pass.key.clone(), refusal);
    }
}

fn template(reply: Reply) -> Option<ResourceClaimTemplate> {
    match reply {
        Reply::Template(template) => Some(*template),
        Reply::Domain(_) | Reply::Lease(_) | Reply::Nothing => None,
    }
}

/// Whether the template has the wanted name and is the last one: none is created for a domain that is being
/// deleted.
fn is_last(pass: &Pass, template: &TemplateRef) -> bool {
    let domain = pass.observed.domain.as_ref();
    domain.is_some_and(|domain| domain.is_being_deleted() && domain.wants(template))
}

/// The request that reads the changed object.
fn refresh(request: &Request, call: &Call) -> Call {
    match (request, call) {
        (Request::DeleteTemplate(template) | Request::RemoveTemplateFinalizer(template, _), _) => {
            Call::ReadTemplate(place_of(template))
        }
        (_, Call::ChangeLease(lease, _) | Call::DeleteLease(lease)) => {
            Call::ReadLease(lease.name())
        }
        (_, Call::PatchDomain(at, _) | Call::WriteStatus(at, _)) => Call::ReadDomain(at.clone()),
        (_, call) => call.clone(),
    }
}
