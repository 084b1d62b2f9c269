//! Errors of publishing.

use dra_common::Advice;

use crate::names::MAX_OBJECT_NAME;
use crate::text;

/// Error of publishing a pool. [`Publication::Failing`](super::Publication::Failing) has its
/// code.
#[derive(Debug, thiserror::Error, Advice)]
#[advice(hint = "", vis = "pub(super)")]
pub(super) enum SliceError {
    #[error("device name `{name}` is not a DNS label of at most 63 lower-case characters")]
    #[advice(code = "invalid-devices")]
    DeviceName { name: String },
    #[error("duplicate device name `{name}`: names must be unique in a pool")]
    #[advice(code = "invalid-devices")]
    DuplicateDevice { name: String },
    #[error("device `{name}` has consumesCounters, but counter sets are not supported")]
    #[advice(code = "invalid-devices")]
    Counters { name: String },
    #[error("ResourceSlice name {name} is too long: {} characters, at most {MAX_OBJECT_NAME} are allowed", name.len())]
    #[advice(code = "slice-name-too-long")]
    NameTooLong { name: String },
    #[error("node {node} does not exist")]
    #[advice(
        code = "no-node",
        hint = "the node name must be the pod's spec.nodeName"
    )]
    NoNode { node: String },
    #[error("the API server{} does not serve resource.k8s.io/v1", version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default())]
    #[advice(
        code = "kubernetes-too-old",
        hint = "use Kubernetes 1.34 or newer, and enable this version of the API group"
    )]
    NotServed { version: Option<String> },
    #[error("cannot {action}")]
    #[advice(code = "slice-request")]
    Api {
        action: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    /// The existing slice may be a new one that is not in the cache yet, or belong to another
    /// driver or node, so that the publisher does not see it.
    #[error(
        "cannot create the ResourceSlice {name}: another driver, another node or a slice that is being deleted uses this name; retrying with another name"
    )]
    #[advice(code = "slice-request")]
    NameTaken { name: String },
    #[error("cannot {action}: the API server did not respond in time")]
    #[advice(code = "slice-request-timeout")]
    TimedOut { action: &'static str },
}

// === impl SliceError ===

impl SliceError {
    /// Whether only a new [`DesiredPool`](super::DesiredPool) can fix the error.
    pub(super) const fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::DeviceName { .. }
                | Self::DuplicateDevice { .. }
                | Self::Counters { .. }
                | Self::NameTooLong { .. }
        )
    }

    /// Whether another writer changed the slices, so that they must be listed again.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::NameTaken { .. })
            || self.status() == Some(409)
            || self.status() == Some(404)
    }

    /// Whether the API server has refused the content of a slice.
    pub(super) fn is_invalid(&self) -> bool {
        self.status() == Some(422)
    }

    /// Converts the error of a slice's creation to [`SliceError::NameTaken`], if that is the
    /// reason.
    pub(super) fn if_name_taken(self, name: &str) -> Self {
        match &self {
            Self::Api { source, .. } if is_already_exists(source) => Self::NameTaken {
                name: name.to_owned(),
            },
            _ => self,
        }
    }

    /// The HTTP status of the API server's response, if there was one.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => status(source),
            _ => None,
        }
    }

    /// The message with the API server's own message or the hint, for status and log.
    pub(super) fn full_message(&self) -> String {
        match (self, self.hint()) {
            (Self::Api { source, .. }, _) => format!("{self}: {}", text::root_cause(source)),
            (_, "") => self.to_string(),
            (_, hint) => format!("{self}: {hint}"),
        }
    }
}

fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// The HTTP status of the API server's response; `None` if there was no response.
pub(super) fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
