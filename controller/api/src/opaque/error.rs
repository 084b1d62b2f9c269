use crate::domain_id::DomainIdError;

/// Why opaque parameters are not a config of ours. All are permanent: parameters of a claim never
/// change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not JSON, or not an object.
    #[error("parameters are not a JSON object")]
    NotAnObject {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// No `kind`.
    #[error("object 'kind' is missing")]
    MissingKind,
    /// No `apiVersion`.
    #[error("object 'apiVersion' is missing")]
    MissingApiVersion,
    /// A kind or version that no release knows. The text is Go's.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The API version.
        api_version: String,
    },
    /// A kind of the same API that configures something else.
    #[error("kind {kind:?} is not a configuration of a compute domain claim")]
    ForeignKind {
        /// The kind.
        kind: String,
    },
    /// A field that is no string.
    #[error("field {field:?} is not a string")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What it is.
        #[source]
        source: serde_json::Error,
    },
    /// Fields that the kind does not have, or has twice. The text is Go's.
    #[error("strict decoding error: {}", problems.join(", "))]
    Strict {
        /// One per field, in their order: `unknown field "x"`, `duplicate field "x"`.
        problems: Vec<String>,
    },
    /// A domain ID that is no UID.
    #[error(transparent)]
    DomainId(#[from] DomainIdError),
}

impl ConfigError {
    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAnObject { .. } => "config-not-json",
            Self::MissingKind | Self::MissingApiVersion => "config-without-kind",
            Self::UnknownKind { .. } | Self::ForeignKind { .. } => "config-of-unknown-kind",
            Self::WrongType { .. } => "config-field-type",
            Self::Strict { .. } => "config-unknown-field",
            Self::DomainId(_) => "config-domain-id",
        }
    }

    /// What the author of the claim changes.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Strict { .. } => {
                "a ComputeDomainChannelConfig has the fields apiVersion, kind, domainID and allocationMode, spelled exactly so"
            }
            _ => "use the ResourceClaimTemplate that the ComputeDomain's controller creates",
        }
    }
}
