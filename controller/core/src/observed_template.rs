use compute_domain_api::DomainUid;
use compute_domain_api::names::{
    DOMAIN_LABEL, DOMAIN_NAME_ANNOTATION, DOMAIN_NAMESPACE_ANNOTATION, TARGET_DAEMON, TARGET_LABEL,
    TARGET_WORKLOAD,
};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::content::Content;
use crate::domain::Domain;
use crate::finalizer;
use crate::lost_label::is_by_controller;
use crate::template::is_claim_content;
use crate::template_ref::TemplateRef;
use crate::version::Version;

/// The parts of an existing `ResourceClaimTemplate` that the decisions need. Thousands are kept in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTemplate {
    reference: TemplateRef,
    pub(crate) version: Version,
    target: Target,
    /// UID of a ComputeDomain, from the label; empty without the label.
    domain_uid: Box<str>,
    /// Name of the ComputeDomain, which the claims carry as an annotation.
    domain_name: Option<Box<str>>,
    /// Whether its claims get the ComputeDomain's label.
    labels_claims: bool,
    deleting: bool,
    home: Home,
    /// Whether our controller or the Go driver's created it. False for a copied or restored template.
    by_controller: bool,
    finalizers: Vec<String>,
    /// `None` if it could not be decoded.
    content: Option<Content>,
}

/// The purpose of a template, from its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The workload of a ComputeDomain.
    Workload,
    /// The IMEX daemons that the Go driver's driver-managed mode runs for a ComputeDomain.
    Daemon,
    /// No label, or another value.
    Other,
}

/// The namespace of a template's ComputeDomain, from the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// In the template's own namespace.
    Here,
    /// In another one: the template is a copy.
    Elsewhere,
    /// No annotation, as in templates of the Go driver.
    Unknown,
}

impl ObservedTemplate {
    /// Takes an object as the API server returned it.
    pub fn new(template: &ResourceClaimTemplate) -> Self {
        let mut observed = Self::undecodable(&template.metadata);
        let claims = template.spec.metadata.as_ref();
        observed.domain_name = claims.and_then(|claims| {
            let name = claims.annotations.as_ref()?.get(DOMAIN_NAME_ANNOTATION)?;
            Some(name.as_str().into())
        });
        observed.labels_claims = claims.is_some_and(|claims| {
            let label = claims.labels.as_ref().and_then(|it| it.get(DOMAIN_LABEL));
            label.is_some_and(|uid| **uid == *observed.domain_uid)
        });
        observed.content = Some(Content::new(&template.spec.spec, &observed.domain_uid));
        observed
    }

    /// Takes a template that has lost its label as this domain's. `None` if it is not what we create for the
    /// domain: then it has another owner.
    pub fn without_label(template: &ResourceClaimTemplate, uid: &DomainUid) -> Option<Self> {
        let mut observed = Self::new(template);
        observed.content = Some(Content::new(&template.spec.spec, uid.as_str()));
        let unlabelled = observed.domain_uid.is_empty();
        (unlabelled && observed.asks_for_what_we_create(uid)).then_some(observed)
    }

    /// The same template later, with the metadata of `now`. Its spec is immutable.
    #[must_use]
    pub fn changed_to(self, now: &Self) -> Self {
        Self {
            content: self.content,
            ..now.clone()
        }
    }

    /// Takes an object of which only the metadata could be decoded.
    pub fn undecodable(metadata: &ObjectMeta) -> Self {
        let label = |key| metadata.labels.as_ref()?.get(key).map(String::as_str);
        let annotations = metadata.annotations.as_ref();
        let home = annotations.and_then(|all| all.get(DOMAIN_NAMESPACE_ANNOTATION));
        Self {
            reference: TemplateRef::new(metadata),
            version: Version::parse(metadata.resource_version.as_deref()),
            target: match label(TARGET_LABEL) {
                Some(TARGET_WORKLOAD) => Target::Workload,
                Some(TARGET_DAEMON) => Target::Daemon,
                _ => Target::Other,
            },
            domain_uid: label(DOMAIN_LABEL).unwrap_or_default().into(),
            domain_name: None,
            labels_claims: false,
            deleting: metadata.deletion_timestamp.is_some(),
            home: match home {
                None => Home::Unknown,
                home if home == metadata.namespace.as_ref() => Home::Here,
                Some(_) => Home::Elsewhere,
            },
            by_controller: is_by_controller(metadata),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            content: None,
        }
    }

    /// Namespace, name and UID of the object.
    pub fn reference(&self) -> &TemplateRef {
        &self.reference
    }

    /// UID of a ComputeDomain, from the label. Any user can set the label.
    pub fn domain_uid(&self) -> &str {
        &self.domain_uid
    }

    /// Name of its ComputeDomain, if the template has it. Templates of the Go driver do not.
    pub fn domain_name(&self) -> Option<&str> {
        self.domain_name.as_deref()
    }

    /// Whether its claims get the label that shows nodes which ComputeDomain owns the channel.
    pub(crate) fn labels_claims(&self) -> bool {
        self.labels_claims
    }

    /// Whether the Go driver's controller may have created it.
    pub(crate) fn may_be_of_go(&self) -> bool {
        self.home == Home::Unknown
    }

    /// Whether the Go driver's driver-managed mode created it. Any user can set the label, but not in these
    /// namespaces.
    pub(crate) fn is_of_driver(&self, driver_namespaces: &[String]) -> bool {
        let namespace = &*self.reference.namespace;
        self.target == Target::Daemon && driver_namespaces.iter().any(|own| own == namespace)
    }

    /// Its purpose, from the label.
    pub(crate) fn target(&self) -> Target {
        self.target
    }

    /// Whether it is being deleted. It exists until its last finalizer is removed.
    pub fn is_being_deleted(&self) -> bool {
        self.deleting
    }

    pub(crate) fn content(&self) -> Option<Content> {
        self.content
    }

    /// Whether it is deleted without a remaining finalizer. Only the watch has not delivered that yet.
    pub fn is_gone(&self) -> bool {
        self.deleting && self.finalizers.is_empty()
    }

    /// Whether it is exactly what this driver or the Go driver creates for the ComputeDomain of its label, in
    /// the same namespace. A copy in another namespace belongs to the user who made it.
    pub(crate) fn is_ours(&self) -> bool {
        let uid = DomainUid::parse(&self.domain_uid);
        self.target != Target::Daemon
            && self.home != Home::Elsewhere
            && uid.is_ok_and(|uid| self.asks_for_what_we_create(&uid))
    }

    /// Whether a controller created it for this domain, whose spec now names another template. Copies belong
    /// to the users who made them.
    pub(crate) fn is_former_of(&self, domain: &Domain) -> bool {
        domain.wanted().is_ok()
            && !domain.wants(&self.reference)
            && self.by_controller
            && self.is_of(domain)
            && self.is_ours()
    }

    fn asks_for_what_we_create(&self, uid: &DomainUid) -> bool {
        let content = self.content;
        content.is_some_and(|content| is_claim_content(content, uid))
    }

    /// Whether it is for a workload: by its label, or because it is ours and has lost the label.
    pub(crate) fn is_for_workload(&self) -> bool {
        self.target == Target::Workload || (self.target == Target::Other && self.is_ours())
    }

    /// Whether it is this domain's template for the workload, by label and namespace.
    pub fn is_of(&self, domain: &Domain) -> bool {
        self.is_for_workload()
            && *self.domain_uid == *domain.uid().as_str()
            && *self.reference.namespace == *domain.namespace()
    }

    /// Whether it has our finalizer.
    pub fn has_finalizer(&self) -> bool {
        finalizer::is_on(&self.finalizers)
    }

    /// The patch that removes our finalizer; `None` if it is not there.
    pub(crate) fn finalizer_removal(&self) -> Option<Value> {
        finalizer::remove(&self.reference.uid, &self.finalizers)
    }

    /// Its owner, as the end of a sentence. `domain` is the ComputeDomain with its
    /// [`domain_uid`](Self::domain_uid), if known.
    pub fn owner(&self, domain: Option<&Domain>) -> String {
        match domain {
            Some(domain) => format!("the ComputeDomain {}/{}", domain.namespace(), domain.name()),
            None if self.domain_uid.is_empty() => "no ComputeDomain".to_owned(),
            None => format!("the ComputeDomain with UID {}", self.domain_uid),
        }
    }
}
