//! The API server: executes the requests of the controller and of users.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use std::sync::Arc;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::CHANNEL_LABEL;
use compute_domain_core::{ChannelLease, StatusSchema, TemplateRef, WRITER};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde_json::Value;

use crate::leases::Channels;
use crate::objects::{
    Place, START, channel, domain_uid, is_being_deleted, is_by_controller, is_copied, is_daemon,
    is_fit_for, label, lease_place, note_writer, place, uid, wanted_place,
};
use crate::store::Store;

/// Why a request fails.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    NotFound,
    /// A test of a patch or a precondition fails, or the change is not allowed.
    Outdated,
    AlreadyExists,
    /// The namespace is being deleted.
    Terminating,
    /// The CRD lacks a field.
    Undeclared(String),
    /// The connection broke: the client does not know whether the request was carried out.
    Disconnected,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Domain(Box<ComputeDomain>),
    Template(Box<ResourceClaimTemplate>),
    Lease(Box<Lease>),
    /// The object does not exist.
    Nothing,
}

/// A request of the controller.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    PatchDomain(Place, Value),
    WriteStatus(Place, Value),
    CreateTemplate(Box<ResourceClaimTemplate>),
    DeleteTemplate(TemplateRef),
    PatchTemplate(TemplateRef, Value),
    DryRun(Box<ResourceClaimTemplate>),
    ReadDomain(Place),
    /// The domain of the key, in this namespace.
    FindDomain(String),
    ReadTemplate(Place),
    TryStatus(Place, Value),
    CreateLease(Box<Lease>),
    ReadLease(String),
    ChangeLease(Arc<ChannelLease>, Value),
    DeleteLease(Arc<ChannelLease>),
}

pub(crate) struct Server {
    pub(crate) domains: Store<ComputeDomain>,
    pub(crate) templates: Store<ResourceClaimTemplate>,
    pub(crate) claims: Store<ResourceClaim>,
    /// In the driver's namespace.
    pub(crate) leases: Store<Lease>,
    pub(crate) channels: Channels,
    pub(crate) schema: StatusSchema,
    pub(crate) now: Timestamp,
    version: u64,
    uids: u64,
    /// The namespaces that are being deleted.
    pub(crate) terminating: BTreeSet<String>,
    /// UIDs of the templates that the controller must not change.
    pub(crate) foreign: BTreeSet<String>,
    /// The wanted places of templates in former specs, by the UID of the domain.
    pub(crate) formerly_wanted: BTreeMap<String, BTreeSet<Place>>,
    /// The number of the controller's writes and of its reads.
    pub(crate) writes: usize,
    pub(crate) reads: usize,
    /// The first violation of an invariant.
    pub(crate) violation: Option<String>,
}

impl Server {
    pub(crate) fn new(schema: StatusSchema) -> Self {
        Self {
            domains: Store::new(|_| true),
            templates: Store::new(|metadata| domain_uid(metadata).is_some()),
            claims: Store::new(|metadata| domain_uid(metadata).is_some()),
            leases: Store::new(|metadata| label(metadata, CHANNEL_LABEL).is_some()),
            channels: Channels::default(),
            schema,
            now: START,
            version: 0,
            uids: 0,
            terminating: BTreeSet::new(),
            foreign: BTreeSet::new(),
            formerly_wanted: BTreeMap::new(),
            writes: 0,
            reads: 0,
            violation: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.templates.is_empty() && self.leases.is_empty()
    }

    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// UID and generation for a new object, unless its namespace is being deleted.
    pub(crate) fn identify(&mut self, object: &mut impl Resource) -> Result<u64, Failure> {
        let (namespace, _) = place(object.meta());
        if self.terminating.contains(&namespace) {
            return Err(Failure::Terminating);
        }
        self.uids += 1;
        let metadata = object.meta_mut();
        metadata.uid = Some(format!("uid-{}", self.uids));
        metadata.generation = Some(1);
        metadata.creation_timestamp = Some(Time(self.now));
        Ok(self.next_version())
    }

    pub(crate) fn create_domain(&mut self, mut domain: ComputeDomain) -> Result<(), Failure> {
        if self.domains.get(&place(&domain.metadata)).is_some() {
            return Err(Failure::AlreadyExists);
        }
        let version = self.identify(&mut domain)?;
        self.domains.put(domain, version);
        Ok(())
    }

    pub(crate) fn create_template(
        &mut self,
        mut template: ResourceClaimTemplate,
    ) -> Result<ResourceClaimTemplate, Failure> {
        if self.templates.get(&place(&template.metadata)).is_some() {
            return Err(Failure::AlreadyExists);
        }
        let version = self.identify(&mut template)?;
        Ok(self.templates.put(template, version))
    }

    pub(crate) fn put_domain(&mut self, domain: ComputeDomain) {
        let version = self.next_version();
        self.domains.put(domain, version);
    }

    pub(crate) fn put_template(&mut self, template: ResourceClaimTemplate) {
        let version = self.next_version();
        self.templates.put(template, version);
    }

    pub(crate) fn delete_domain(&mut self, at: &Place) -> Result<(), Failure> {
        let version = self.next_version();
        self.domains.delete(at, version).map(drop)
    }

    pub(crate) fn delete_template(&mut self, at: &Place) -> Result<(), Failure> {
        let version = self.next_version();
        self.templates.delete(at, version).map(drop)
    }

    /// Removes empty namespaces that are being deleted. Their names can be used again.
    pub(crate) fn finish_namespaces(&mut self) {
        let (domains, templates) = (&self.domains, &self.templates);
        self.terminating
            .retain(|namespace| domains.has_any_in(namespace) || templates.has_any_in(namespace));
    }

    /// Executes a request of the controller for this key.
    pub(crate) fn handle(&mut self, key: &str, call: &Call) -> Result<Reply, Failure> {
        let version = self.next_version();
        match call {
            Call::PatchDomain(at, patch) => {
                self.writes += 1;
                self.domains.patch(at, patch, version).map(Reply::from)
            }
            Call::WriteStatus(at, patch) => {
                self.writes += 1;
                self.write_status(at, patch, version)
            }
            Call::CreateTemplate(template) => {
                self.writes += 1;
                let mut template = (**template).clone();
                note_writer(&mut template.metadata, WRITER);
                self.create_template(template).map(Reply::from)
            }
            Call::DeleteTemplate(template) => {
                self.writes += 1;
                self.check_deletion(template);
                self.check_uid(template)?;
                let deleted = self.templates.delete(&place_of(template), version)?;
                Ok(match self.templates.get(&place_of(template)) {
                    Some(_) => Reply::from(deleted),
                    None => Reply::Nothing,
                })
            }
            Call::PatchTemplate(template, patch) => {
                self.writes += 1;
                self.check_release(template);
                let patched = self.templates.patch(&place_of(template), patch, version);
                patched.map(Reply::from)
            }
            Call::DryRun(template) => {
                self.reads += 1;
                Ok(Reply::Template(template.clone()))
            }
            Call::ReadDomain(at) => {
                self.reads += 1;
                let domain = self.domains.get(at).cloned();
                Ok(domain.map_or(Reply::Nothing, Reply::from))
            }
            Call::FindDomain(namespace) => {
                self.reads += 1;
                let found = self.domains.by_uid(key).cloned();
                let found = found.filter(|it| place(&it.metadata).0 == *namespace);
                Ok(found.map_or(Reply::Nothing, Reply::from))
            }
            Call::TryStatus(at, patch) => {
                self.reads += 1;
                self.checked_status(at, patch).map(Reply::from)
            }
            Call::CreateLease(lease) => {
                self.writes += 1;
                self.post_lease(lease)
            }
            Call::ReadLease(name) => {
                self.reads += 1;
                let lease = self.leases.get(&lease_place(name)).cloned();
                Ok(lease.map_or(Reply::Nothing, Reply::from))
            }
            Call::ChangeLease(lease, patch) => {
                self.writes += 1;
                self.patch_lease(lease, patch, version)
            }
            Call::DeleteLease(lease) => {
                self.writes += 1;
                self.free_lease(lease)
            }
            Call::ReadTemplate(at) => {
                self.reads += 1;
                let template = self.templates.get(at).cloned();
                Ok(template.map_or(Reply::Nothing, Reply::from))
            }
        }
    }

    /// A server-side apply, which names the UID.
    fn write_status(&mut self, at: &Place, patch: &Value, version: u64) -> Result<Reply, Failure> {
        let domain = self.checked_status(at, patch)?;
        Ok(Reply::from(self.domains.put(domain, version)))
    }

    /// The domain with this status, if the CRD allows it.
    fn checked_status(&self, at: &Place, patch: &Value) -> Result<ComputeDomain, Failure> {
        let mut domain = self.domains.get(at).cloned().ok_or(Failure::NotFound)?;
        if patch["metadata"]["uid"] != uid(&domain.metadata) {
            return Err(Failure::Outdated);
        }
        let status = &patch["status"];
        for (field, declared) in [
            ("conditions", self.schema.conditions),
            ("observedGeneration", self.schema.observed_generation),
            ("channel", self.schema.channel),
        ] {
            if !declared && !status[field].is_null() {
                let message = format!(".status.{field}: field not declared in schema");
                return Err(Failure::Undeclared(message));
            }
        }
        let before = channel(&domain);
        domain.status = Some(serde_json::from_value(status.clone()).unwrap());
        if before.is_some() && channel(&domain) != before {
            return Err(Failure::Outdated);
        }
        Ok(domain)
    }

    fn check_uid(&self, template: &TemplateRef) -> Result<(), Failure> {
        let found = self.templates.get(&place_of(template));
        let found = found.ok_or(Failure::NotFound)?;
        let same = uid(&found.metadata) == &*template.uid;
        same.then_some(()).ok_or(Failure::Outdated)
    }

    // === invariants ===

    pub(crate) fn violate(&mut self, what: &str, template: &impl fmt::Display) {
        self.violation
            .get_or_insert_with(|| format!("{what}: {template}"));
    }

    /// The request's template, unless the controller must not change it.
    fn check_touch(&mut self, template: &TemplateRef) -> Option<ResourceClaimTemplate> {
        let found = self.templates.by_uid(&template.uid)?.clone();
        if self.foreign.contains(uid(&found.metadata)) || is_daemon(&found.metadata) {
            self.violate("a foreign template is touched", template);
        }
        Some(found)
    }

    fn check_deletion(&mut self, template: &TemplateRef) {
        let Some(found) = self.check_touch(template) else {
            return;
        };
        if is_copied(&found.metadata) {
            self.violate("a copy is deleted, which is its owner's", template);
        }
        let owner = domain_uid(&found.metadata).and_then(|uid| self.domains.by_uid(uid));
        let Some(owner) = owner.filter(|owner| !is_being_deleted(&owner.metadata)) else {
            return;
        };
        // The watch may not have delivered yet that a spec was replaced.
        let formerly_wanted = self.formerly_wanted.get(uid(&owner.metadata));
        let at = place(&found.metadata);
        if at != wanted_place(owner) {
            let former = formerly_wanted.is_some_and(|places| places.contains(&at));
            if !is_by_controller(&found.metadata) && !former {
                self.violate("the copy of a live domain is deleted", template);
            }
        } else if is_fit_for(&found, owner) && formerly_wanted.is_none() {
            self.violate("the template of a live domain is deleted", template);
        }
    }

    fn check_release(&mut self, template: &TemplateRef) {
        let found = self.check_touch(template);
        if found.is_some_and(|it| !is_being_deleted(&it.metadata)) {
            self.violate("a template that lives loses our finalizer", template);
        }
    }
}

// === impl Reply ===

impl From<ComputeDomain> for Reply {
    fn from(domain: ComputeDomain) -> Self {
        Self::Domain(Box::new(domain))
    }
}

impl From<Lease> for Reply {
    fn from(lease: Lease) -> Self {
        Self::Lease(Box::new(lease))
    }
}

impl From<ResourceClaimTemplate> for Reply {
    fn from(template: ResourceClaimTemplate) -> Self {
        Self::Template(Box::new(template))
    }
}

pub(crate) fn place_of(template: &TemplateRef) -> Place {
    (template.namespace.to_string(), template.name.to_string())
}
