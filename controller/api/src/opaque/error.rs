use dra_common::Advice;

use crate::domain_uid::DomainUidError;

/// Why an opaque config cannot be used. All errors are permanent, because the config of a claim is immutable.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "use the ResourceClaimTemplate that the ComputeDomain's controller creates")]
pub enum ConfigError {
    /// Not JSON, or not an object.
    #[error("parameters are not a JSON object")]
    #[advice(code = "config-not-json")]
    NotAnObject {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// No `kind`.
    #[error("object 'kind' is missing")]
    #[advice(code = "config-without-kind")]
    MissingKind,
    /// No `apiVersion`.
    #[error("object 'apiVersion' is missing")]
    #[advice(code = "config-without-kind")]
    MissingApiVersion,
    /// An unknown kind or version. The message is the Go driver's.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    #[advice(code = "config-of-unknown-kind")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The API version.
        api_version: String,
    },
    /// A kind of the same API version that does not configure a claim of this driver.
    #[error("kind {kind:?} is not the configuration of a ComputeDomain claim")]
    #[advice(code = "config-of-unknown-kind")]
    OtherKind {
        /// The kind.
        kind: String,
    },
    /// A field that is not a string.
    #[error("field {field:?} is not a string")]
    #[advice(code = "config-field-type")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What it is instead.
        #[source]
        source: serde_json::Error,
    },
    /// Unknown or duplicate fields. The message is the Go driver's.
    #[error("strict decoding error: {}", problems.join(", "))]
    #[advice(
        code = "config-unknown-field",
        hint = "a ComputeDomainChannelConfig has the fields apiVersion, kind, domainID and allocationMode, spelled exactly like this"
    )]
    Strict {
        /// One for each offending field, in their order: `unknown field "x"`, `duplicate field "x"`.
        problems: Vec<String>,
    },
    /// `domainID` is not a UID.
    #[error(transparent)]
    #[advice(code = "config-domain-id")]
    DomainUid(#[from] DomainUidError),
}
