use compute_domain_api::crd::{ComputeDomain, ComputeDomainSpec, ComputeDomainState};
use compute_domain_api::{AllocationMode, DomainUid, DomainUidError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use crate::finalizer;
use crate::go_driver;
use crate::rejection::{CHANNEL_REASONS, NAME_TAKEN_REASON, Rejection};
use crate::reported::Reported;
use crate::template_name;
use crate::template_ref::TemplateRef;
use crate::version::Version;

/// The parts of a ComputeDomain that the decisions need. Thousands are kept in memory.
///
/// It always has UID, namespace and name. A missing or unreadable spec is a [`Rejection`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    uid: DomainUid,
    namespace: Box<str>,
    name: Box<str>,
    pub(crate) version: Version,
    pub(crate) generation: Option<i64>,
    pub(crate) created: Timestamp,
    deleting: bool,
    pub(crate) finalizers: Vec<String>,
    wanted: Result<WantedTemplate, Box<Rejection>>,
    pub(crate) reported: Option<Reported>,
    pub(crate) last_write_of_go: Option<go_driver::WriteTime>,
}

/// The template that the spec requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedTemplate {
    pub(crate) name: Box<str>,
    pub(crate) allocation_mode: AllocationMode,
    num_nodes: i64,
}

/// An object without the metadata that the API server gives to every object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnidentifiedError {
    /// No UID, or one that is not a valid label value.
    #[error("a ComputeDomain has no valid UID")]
    Uid(#[source] DomainUidError),
    /// No namespace.
    #[error("a ComputeDomain has no namespace")]
    Namespace,
    /// No name.
    #[error("a ComputeDomain has no name")]
    Name,
}

impl Domain {
    /// Takes an object as the API server returned it.
    ///
    /// # Errors
    /// If metadata is missing that every object of an API server has.
    pub fn new(object: ComputeDomain) -> Result<Self, UnidentifiedError> {
        let wanted = WantedTemplate::new(object.spec());
        let reported = object.status.as_ref().map(Reported::new);
        Self::identify(object.metadata, wanted, reported)
    }

    /// Takes an object of which only the metadata could be decoded. It is rejected, and can be deleted like any
    /// other.
    ///
    /// # Errors
    /// As [`Domain::new`].
    // req: CD-15
    pub fn unreadable(metadata: ObjectMeta, decode_error: &str) -> Result<Self, UnidentifiedError> {
        let message = decode_error.to_owned();
        Self::identify(metadata, Err(Rejection::Unreadable { message }), None)
    }

    fn identify(
        metadata: ObjectMeta,
        wanted: Result<WantedTemplate, Rejection>,
        reported: Option<Reported>,
    ) -> Result<Self, UnidentifiedError> {
        let uid = DomainUid::parse(metadata.uid.as_deref().unwrap_or_default())
            .map_err(UnidentifiedError::Uid)?;
        Ok(Self {
            uid,
            last_write_of_go: go_driver::last_write(&metadata),
            namespace: metadata
                .namespace
                .ok_or(UnidentifiedError::Namespace)?
                .into(),
            name: metadata.name.ok_or(UnidentifiedError::Name)?.into(),
            version: Version::parse(metadata.resource_version.as_deref()),
            generation: metadata.generation,
            created: metadata
                .creation_timestamp
                .map_or(Timestamp::MIN, |at| at.0),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            wanted: wanted.map_err(Box::new),
            reported,
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

    /// Whether it is being deleted. It exists until its last finalizer is removed.
    pub fn is_being_deleted(&self) -> bool {
        self.deleting
    }

    /// Whether it has our finalizer.
    pub fn has_finalizer(&self) -> bool {
        finalizer::is_on(&self.finalizers)
    }

    /// The state that its status reports; `None` before the first status.
    pub fn reported_state(&self) -> Option<ComputeDomainState> {
        Some(self.reported.as_ref()?.state)
    }

    /// Whether its status reports that the name of its template is taken.
    pub fn reports_name_taken(&self) -> bool {
        let ready = self.reported.as_ref().and_then(|it| it.ready.as_ref());
        ready.is_some_and(|ready| *ready.reason == *NAME_TAKEN_REASON)
    }

    /// Whether its status has the condition `NodesWithoutClique`.
    pub fn reports_nodes_without_clique(&self) -> bool {
        let reported = self.reported.as_ref();
        reported.is_some_and(|it| it.nodes_without_clique.is_some())
    }

    /// Whether its status has nodes.
    pub fn reports_nodes(&self) -> bool {
        let of_nodes = self.reported.as_ref().and_then(|it| it.of_nodes.as_ref());
        of_nodes.is_some_and(|it| !it.nodes.is_empty())
    }

    /// The IMEX channel in its status. Channel 0 is shared by those that were Ready before each got its own.
    pub fn channel(&self) -> Option<u32> {
        self.reported.as_ref()?.channel
    }

    /// Whether it should get a channel. If it was admitted without one, its pods may use channel 0.
    pub(crate) fn wants_channel(&self) -> bool {
        let admitted = self.reported.as_ref().is_some_and(Reported::was_admitted);
        let usable = !self.deleting && self.has_finalizer() && self.wanted.is_ok();
        usable && !admitted && self.channel().is_none()
    }

    /// Whether its status has a reason of rejection that is not about channels.
    pub(crate) fn is_rejected_otherwise(&self) -> bool {
        let ready = self.reported.as_ref().and_then(|it| it.ready.as_ref());
        ready.is_some_and(|ready| !CHANNEL_REASONS.contains(&&*ready.reason))
    }

    /// The name that the user chose for the template.
    ///
    /// # Errors
    /// If there is none, or if it is not a valid object name.
    pub fn template_name(&self) -> Result<&str, Rejection> {
        self.wanted().map(|wanted| &*wanted.name)
    }

    /// Whether the spec names this template.
    pub fn wants(&self, template: &TemplateRef) -> bool {
        let wanted = self.wanted.as_ref();
        *template.namespace == *self.namespace
            && wanted.is_ok_and(|wanted| wanted.name == template.name)
    }

    /// The allocation mode of the spec; `None` if the spec is missing or unusable.
    pub fn allocation_mode(&self) -> Option<&AllocationMode> {
        Some(&self.wanted.as_ref().ok()?.allocation_mode)
    }

    /// The number of nodes that it needs to become Ready in driver-managed mode.
    pub(crate) fn num_nodes(&self) -> i64 {
        self.wanted.as_ref().map_or(0, |wanted| wanted.num_nodes)
    }

    pub(crate) fn wanted(&self) -> Result<&WantedTemplate, Rejection> {
        self.wanted
            .as_ref()
            .map_err(|rejection| (**rejection).clone())
    }
}

// === impl WantedTemplate ===

impl WantedTemplate {
    fn new(spec: Option<&ComputeDomainSpec>) -> Result<Self, Rejection> {
        let spec = spec.ok_or(Rejection::SpecMissing)?;
        let channel = &spec.channel;
        let name = &channel.resource_claim_template.name;
        template_name::validate(name).map_err(|source| Rejection::InvalidTemplateName {
            name: name.clone(),
            source,
        })?;
        Ok(Self {
            name: name.as_str().into(),
            // Absent means one channel.
            allocation_mode: match &channel.allocation_mode {
                AllocationMode::Unset => AllocationMode::Single,
                mode => mode.clone(),
            },
            num_nodes: spec.num_nodes,
        })
    }
}
