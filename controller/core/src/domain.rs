use compute_domain_api::crd::{ComputeDomain, ComputeDomainSpec, ComputeDomainStatus};
use compute_domain_api::{DomainUid, DomainUidError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::rejection::Rejection;
use crate::template_name;

/// A ComputeDomain that is known to have UID, namespace and name, as every object in the API
/// server has. Its spec may still be missing or unreadable: that is a [`Rejection`].
#[derive(Clone, Debug)]
pub struct Domain {
    uid: DomainUid,
    namespace: String,
    name: String,
    object: ComputeDomain,
    /// Why its spec and status could not be decoded.
    decode_error: Option<String>,
}

/// An object without the metadata that the API server gives to every object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnidentifiedError {
    /// No UID, or one that is not a valid label value.
    #[error("a ComputeDomain without a usable UID")]
    Uid(#[source] DomainUidError),
    /// No namespace.
    #[error("a ComputeDomain without a namespace")]
    Namespace,
    /// No name.
    #[error("a ComputeDomain without a name")]
    Name,
}

impl Domain {
    /// Takes an object as the API server returned it.
    ///
    /// # Errors
    /// If metadata is missing, which no object of an API server lacks.
    pub fn new(object: ComputeDomain) -> Result<Self, UnidentifiedError> {
        Self::identify(object, None)
    }

    /// Takes an object of which only the metadata could be decoded. It is rejected while it lives,
    /// and deleted like any other.
    ///
    /// # Errors
    /// As [`Domain::new`].
    pub fn unreadable(metadata: ObjectMeta, decode_error: &str) -> Result<Self, UnidentifiedError> {
        let object = ComputeDomain {
            metadata,
            ..ComputeDomain::default()
        };
        Self::identify(object, Some(decode_error.to_owned()))
    }

    fn identify(
        object: ComputeDomain,
        decode_error: Option<String>,
    ) -> Result<Self, UnidentifiedError> {
        let metadata = &object.metadata;
        let uid = DomainUid::parse(metadata.uid.as_deref().unwrap_or_default())
            .map_err(UnidentifiedError::Uid)?;
        let namespace = metadata
            .namespace
            .clone()
            .ok_or(UnidentifiedError::Namespace)?;
        let name = metadata.name.clone().ok_or(UnidentifiedError::Name)?;
        Ok(Self {
            uid,
            namespace,
            name,
            object,
            decode_error,
        })
    }

    /// Its UID.
    pub fn uid(&self) -> &DomainUid {
        &self.uid
    }

    /// Its namespace, which is also its template's.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object itself. Of an unreadable one it has the metadata only.
    pub fn object(&self) -> &ComputeDomain {
        &self.object
    }

    /// Whether it is being deleted: it stays until its last finalizer is removed.
    pub fn is_being_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// The name that the user chose for the template.
    ///
    /// # Errors
    /// If there is none, or if it is not a valid object name.
    pub fn template_name(&self) -> Result<&str, Rejection> {
        let name = &self.spec()?.channel.resource_claim_template.name;
        template_name::validate(name).map_err(|source| Rejection::InvalidTemplateName {
            name: name.clone(),
            source,
        })?;
        Ok(name)
    }

    pub(crate) fn spec(&self) -> Result<&ComputeDomainSpec, Rejection> {
        if let Some(error) = &self.decode_error {
            return Err(Rejection::Unreadable {
                message: error.clone(),
            });
        }
        self.object.spec().ok_or(Rejection::SpecMissing)
    }

    pub(crate) fn status(&self) -> Option<&ComputeDomainStatus> {
        self.object.status.as_ref()
    }

    pub(crate) fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}
