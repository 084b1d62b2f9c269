//! Puts watch events into the index and the queue.

use compute_domain_api::names::DOMAIN_LABEL;
use compute_domain_core::{
    Change, ClaimName, Domain, Index, Key, ObservedTemplate, TemplateRef, restored_label,
};
use dra_common::error_chain;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::runtime::watcher::Event;
use tracing::warn;

use super::{Run, Watched};
use crate::api_client::{RawDomain, RawMetadata, RawTemplate, identify};
use crate::queue::Queue;
use crate::reconcile::Context;
use crate::refusals::TakenName;
use crate::waiting::is_allocated;
use crate::watches::WatchEvent;

impl Run<'_> {
    pub(super) fn take(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Domain(event) => {
                if let Some(event) = self.log.checked(0, "ComputeDomains", event) {
                    self.take_domain(event);
                }
            }
            WatchEvent::Template(event) => {
                if let Some(event) = self.log.checked(1, "ResourceClaimTemplates", event) {
                    self.take_template(event);
                }
            }
            WatchEvent::Claim(event) => {
                if let Some(event) = self.log.checked(2, "ResourceClaims", event) {
                    self.take_claim(event);
                }
            }
            WatchEvent::Lease(event) => {
                if let Some(event) = self.log.checked(4, "Leases of IMEX channels", event) {
                    self.take_lease(event);
                }
            }
            WatchEvent::Other(event) => {
                let what = "ResourceClaimTemplates without a ComputeDomain label";
                match self.log.checked(3, what, event) {
                    Some(Event::Delete(template)) => {
                        self.name_is_free(&TemplateRef::new(template.meta()));
                    }
                    Some(Event::InitDone) => {
                        let waiting = self.worker.context.refusals.names_may_be_free();
                        self.add(&waiting);
                    }
                    _ => {}
                }
            }
        }
    }

    fn take_domain(&mut self, event: Event<RawDomain>) {
        let index = &self.worker.context.index;
        match event {
            Event::Init => index.lock().begin_domains(),
            Event::InitApply(object) | Event::Apply(object) => {
                if let Some(domain) = identified(object) {
                    self.apply_domain(domain);
                }
            }
            Event::InitDone => {
                let gone = index.lock().finish_domains();
                self.add(&gone);
                for key in &gone {
                    self.domain_gone(key);
                }
                self.listed(Watched::Domains);
            }
            Event::Delete(object) => {
                let uid = object.meta().uid.clone().unwrap_or_default();
                index.lock().remove_domain(&uid);
                // Its template may be left over, and its remembered state can be dropped.
                let key = uid.into();
                self.add([&key]);
                self.domain_gone(&key);
            }
        }
    }

    fn apply_domain(&mut self, domain: Domain) {
        let context = &self.worker.context;
        let key: Key = domain.uid().as_str().into();
        let change = context.index.lock().apply_domain(domain);
        if self.has_changed(change, &key) {
            self.add(&[key]);
        }
    }

    fn take_template(&mut self, event: Event<RawTemplate>) {
        let index = &self.worker.context.index;
        match event {
            Event::Init => index.lock().begin_templates(),
            Event::InitApply(object) | Event::Apply(object) => {
                self.apply_template(&object);
            }
            Event::InitDone => {
                let gone = index.lock().finish_templates();
                for template in gone {
                    self.template_gone(&template);
                    self.name_is_free(template.reference());
                }
                self.listed(Watched::Templates);
            }
            Event::Delete(object) => {
                let template = TemplateRef::new(object.meta());
                let gone = index.lock().remove_template(&template.uid);
                if let Some(gone) = gone {
                    self.template_gone(&gone);
                }
                self.name_is_free(&template);
            }
        }
    }

    fn take_claim(&mut self, event: Event<RawMetadata<ResourceClaim>>) {
        let Context { index, waiting, .. } = &self.worker.context;
        match event {
            Event::Init => {
                index.lock().begin_claims();
                waiting.begin();
                self.claims_list_started();
            }
            Event::InitApply(claim) | Event::Apply(claim) => {
                if let Some((key, name)) = identified_claim(claim.meta()) {
                    let is_last = waiting.apply(&key, &name, is_allocated(claim.meta()));
                    index.lock().apply_claim(key.clone(), name);
                    self.claims_changed(&key);
                    self.claim_stopped_waiting(&key, is_last);
                    self.claim_applied(&key, claim.meta());
                }
            }
            Event::InitDone => {
                index.lock().finish_claims();
                waiting.finish();
                let event = index.lock().with_nodes_without_clique();
                self.add(&event);
                let left = index.lock().leases_left();
                self.add(&left);
                self.claims_listed();
                self.listed(Watched::Claims);
            }
            Event::Delete(claim) => {
                if let Some((key, name)) = identified_claim(claim.meta()) {
                    let is_last = waiting.remove(&key, &name);
                    index.lock().remove_claim(&key, &name);
                    self.claims_changed(&key);
                    self.claim_stopped_waiting(&key, is_last);
                    self.claim_gone(&key);
                }
            }
        }
    }

    /// A watch has completed its list.
    pub(super) fn listed(&mut self, which: Watched) {
        if self.unlisted.listed(which) {
            self.all_listed();
        }
    }

    /// When no claim of the domain waits any more, queues it to remove the condition about nodes without a clique.
    fn claim_stopped_waiting(&mut self, key: &Key, is_last: bool) {
        let index = &self.worker.context.index;
        let is_reported = || {
            let domain = index.lock().domain(key);
            domain.is_some_and(|domain| domain.reports_nodes_without_clique())
        };
        if is_last && is_reported() {
            self.add([key]);
        }
    }

    /// The watch no longer has the template.
    fn template_gone(&mut self, template: &ObservedTemplate) {
        let key: Key = template.domain_uid().into();
        let uid = &template.reference().uid;
        let released = self.worker.context.releasing().contains(uid);
        if template.has_finalizer() && !released {
            // It has lost its label, unless another client has removed our finalizer.
            self.lost_labels.add(template.reference(), Some(key));
        } else {
            self.add(&[key]);
        }
    }

    fn apply_template(&mut self, object: &RawTemplate) {
        let index = &self.worker.context.index;
        let template = match &object.0 {
            Ok(template) => ObservedTemplate::new(template),
            Err(invalid) => ObservedTemplate::undecodable(&invalid.metadata),
        };
        let reference = template.reference().clone();
        let key: Key = template.domain_uid().into();
        let before = index.lock().key_of_template(&template.reference().uid);
        let change = index.lock().apply_template(template);
        if !self.has_changed(change, &key) {
            return;
        }
        let mislabelled = object
            .0
            .as_ref()
            .is_ok_and(|it| restored_label(it).is_some());
        if mislabelled {
            self.lost_labels.add(&reference, before);
            return;
        }
        // If the label was changed, the former domain has no template now.
        self.add(before.as_slice());
        self.add(&[key]);
    }

    /// Whether an object of this key has changed. Reports a second controller.
    fn has_changed(&self, change: Change, key: &Key) -> bool {
        let Change::Newer {
            by_second_controller,
        } = change
        else {
            return false;
        };
        if by_second_controller {
            self.report_second_controller(key);
        }
        true
    }

    /// Queues the ComputeDomain that has waited longest for the name of this template.
    fn name_is_free(&mut self, template: &TemplateRef) {
        let name = TakenName {
            namespace: template.namespace.clone(),
            name: template.name.clone(),
        };
        let next = self.worker.context.refusals.name_is_free(&name);
        self.add(next.as_slice());
    }

    /// This key was reconciled or postponed. If it had a handover and did not take the name, queues the next one that
    /// waits for it.
    pub(super) fn end_handover(&mut self, key: &Key) {
        let context = &self.worker.context;
        let next = context.refusals.end_handover(key, |name| {
            let templates = context.index.lock().templates_of(key);
            let mut places = templates.iter().map(|template| template.reference());
            places.any(|it| it.namespace == name.namespace && it.name == name.name)
        });
        self.add(next.as_slice());
    }

    fn report_second_controller(&self, key: &Key) {
        let context = &self.worker.context;
        if let Some(domain) = context.index.lock().domain(key) {
            context.reports.second_controller(&domain);
        }
    }

    /// Queues everything known, even if unchanged.
    pub(super) fn add_all(&mut self) {
        let keys = self.worker.context.index.lock().keys();
        self.add(&keys);
    }

    pub(super) fn add<'k>(&mut self, keys: impl IntoIterator<Item = &'k Key>) {
        let index = self.worker.context.index.lock();
        for key in keys {
            add_next_waiting(&mut self.queue, &index, key);
        }
    }
}

/// Namespaces take turns. An unknown ComputeDomain has the namespace of its template.
fn add_next_waiting(queue: &mut Queue, index: &Index, key: &Key) {
    if let Some(domain) = index.domain(key) {
        queue.add(key, domain.namespace());
    } else {
        let templates = index.templates_of(key);
        let namespace = templates.first().map(|it| &*it.reference().namespace);
        queue.add(key, namespace.unwrap_or_default());
    }
}

fn identified_claim(claim: &ObjectMeta) -> Option<(Key, ClaimName)> {
    let uid = claim.labels.as_ref()?.get(DOMAIN_LABEL)?;
    let namespace = claim.namespace.as_deref()?;
    let name = claim.name.as_deref()?;
    Some((uid.as_str().into(), (namespace.into(), name.into())))
}

fn identified(object: RawDomain) -> Option<Domain> {
    let domain = identify(object);
    if let Err(err) = &domain {
        warn!(error = error_chain(err), "ignored an object from the watch");
    }
    domain.ok()
}
