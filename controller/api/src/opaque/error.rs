use crate::domain_uid::DomainUidError;

/// Why an opaque config cannot be used. Every one is permanent, because the config of a claim
/// cannot be changed.
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
    /// An unknown kind or version. The message is the Go driver's.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The API version.
        api_version: String,
    },
    /// A kind of the same API version that does not configure a claim of this driver.
    #[error("kind {kind:?} is not the configuration of a ComputeDomain claim")]
    OtherKind {
        /// The kind.
        kind: String,
    },
    /// A field that is not a string.
    #[error("field {field:?} is not a string")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What it is instead.
        #[source]
        source: serde_json::Error,
    },
    /// Unknown or duplicate fields. The message is the Go driver's.
    #[error("strict decoding error: {}", problems.join(", "))]
    Strict {
        /// One for each field, in their order: `unknown field "x"`, `duplicate field "x"`.
        problems: Vec<String>,
    },
    /// `domainID` is not a UID.
    #[error(transparent)]
    DomainUid(#[from] DomainUidError),
}

impl ConfigError {
    /// A stable name of the error, for metrics and tests.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAnObject { .. } => "config-not-json",
            Self::MissingKind | Self::MissingApiVersion => "config-without-kind",
            Self::UnknownKind { .. } | Self::OtherKind { .. } => "config-of-unknown-kind",
            Self::WrongType { .. } => "config-field-type",
            Self::Strict { .. } => "config-unknown-field",
            Self::DomainUid(_) => "config-domain-id",
        }
    }

    /// What the author of the claim has to change.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Strict { .. } => {
                "a ComputeDomainChannelConfig has the fields apiVersion, kind, domainID and allocationMode, spelled exactly like this"
            }
            _ => "use the ResourceClaimTemplate that the ComputeDomain's controller creates",
        }
    }
}
