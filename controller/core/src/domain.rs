use compute_domain_api::crd::{ComputeDomain, ComputeDomainSpec, ComputeDomainStatus};
use compute_domain_api::{DomainId, DomainIdError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Refusal;

/// A ComputeDomain that has what every object in the API server has.
#[derive(Clone, Debug)]
pub struct Domain {
    id: DomainId,
    namespace: String,
    name: String,
    object: ComputeDomain,
    /// Why its spec and status could not be read.
    unreadable: Option<String>,
}

/// An object without the metadata that the API server gives to every object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnidentifiedError {
    /// No UID, or one that is no label value.
    #[error("a ComputeDomain without a usable UID")]
    Uid(#[source] DomainIdError),
    /// No namespace.
    #[error("a ComputeDomain without a namespace")]
    Namespace,
    /// No name.
    #[error("a ComputeDomain without a name")]
    Name,
}

impl Domain {
    /// Takes an object as it was read.
    pub fn new(object: ComputeDomain) -> Result<Self, UnidentifiedError> {
        Self::identify(object, None)
    }

    /// Takes an object of which only the metadata could be read. It is refused while it lives and
    /// deleted like any other.
    pub fn unreadable(metadata: ObjectMeta, why: &str) -> Result<Self, UnidentifiedError> {
        let object = ComputeDomain {
            metadata,
            ..ComputeDomain::default()
        };
        Self::identify(object, Some(why.to_owned()))
    }

    fn identify(
        object: ComputeDomain,
        unreadable: Option<String>,
    ) -> Result<Self, UnidentifiedError> {
        let metadata = &object.metadata;
        let id = DomainId::parse(metadata.uid.as_deref().unwrap_or_default())
            .map_err(UnidentifiedError::Uid)?;
        let namespace = metadata
            .namespace
            .clone()
            .ok_or(UnidentifiedError::Namespace)?;
        let name = metadata.name.clone().ok_or(UnidentifiedError::Name)?;
        Ok(Self {
            id,
            namespace,
            name,
            object,
            unreadable,
        })
    }

    /// Its UID.
    pub fn id(&self) -> &DomainId {
        &self.id
    }

    /// Its namespace, which is also its template's.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object.
    pub fn object(&self) -> &ComputeDomain {
        &self.object
    }

    /// The name that its user chose for the template, if it is one.
    pub fn template_name(&self) -> Result<&str, Refusal> {
        let name = &self.spec()?.channel.resource_claim_template.name;
        crate::name::check(name).map_err(|source| Refusal::BadTemplateName {
            name: name.clone(),
            source,
        })?;
        Ok(name)
    }

    pub(crate) fn spec(&self) -> Result<&ComputeDomainSpec, Refusal> {
        if let Some(why) = &self.unreadable {
            return Err(Refusal::Unreadable { why: why.clone() });
        }
        self.object.spec().ok_or(Refusal::SpecMissing)
    }

    pub(crate) fn status(&self) -> Option<&ComputeDomainStatus> {
        self.object.status.as_ref()
    }

    pub(crate) fn deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}
