use dra_claim::ParametersError;
use dra_common::Advice;

use crate::domain_uid::DomainUidError;

const TEMPLATE_HINT: &str =
    "use the ResourceClaimTemplate that the ComputeDomain's controller creates";

/// Why an opaque config cannot be used. All errors are permanent, because the config of a claim is immutable.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = TEMPLATE_HINT)]
pub enum ConfigError {
    /// Not a config of the API version, or fields of it are unknown, duplicate or of another type.
    #[error(transparent)]
    #[advice(from, hint = parameters_hint(_0))]
    Parameters(#[from] ParametersError),
    /// A kind of the same API version that does not configure a claim of this driver.
    #[error("kind {kind:?} is not the configuration of a ComputeDomain claim")]
    #[advice(code = "config-of-unknown-kind")]
    OtherKind {
        /// The kind.
        kind: String,
    },
    /// `domainID` is not a UID.
    #[error(transparent)]
    #[advice(code = "config-domain-id")]
    DomainUid(#[from] DomainUidError),
}

fn parameters_hint(error: &ParametersError) -> &'static str {
    match error {
        ParametersError::Strict { .. } => {
            "a ComputeDomainChannelConfig has the fields apiVersion, kind, domainID and allocationMode, spelled exactly like this"
        }
        _ => TEMPLATE_HINT,
    }
}
