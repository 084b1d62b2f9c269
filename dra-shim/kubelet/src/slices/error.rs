//! Errors of publishing.

use dra_common::Advice;

use crate::names::MAX_OBJECT_NAME;
use crate::text;

/// Why a pool cannot be published at the moment. Its code is that of
/// [`Publication::Failing`](super::Publication::Failing).
#[derive(Debug, thiserror::Error, Advice)]
#[advice(hint = "", vis = "pub(super)")]
pub(super) enum SliceError {
    #[error("device name `{name}` is not a DNS label of at most 63 lower-case characters")]
    #[advice(code = "invalid-devices")]
    DeviceName { name: String },
    #[error("device name `{name}` occurs twice, and names must be unique in a pool")]
    #[advice(code = "invalid-devices")]
    DuplicateDevice { name: String },
    #[error("device `{name}` consumes counters, and this library publishes no counter sets")]
    #[advice(code = "invalid-devices")]
    Counters { name: String },
    #[error("the slice name {name} has {} characters, and the API server allows {MAX_OBJECT_NAME}", name.len())]
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
        hint = "Kubernetes 1.34 or newer is needed, with this version of the API group enabled"
    )]
    NotServed { version: Option<String> },
    #[error("cannot {action}")]
    #[advice(code = "slice-request")]
    Api {
        action: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    /// The name may be that of a slice which was made a moment ago, or of one that is not
    /// of this driver and node, which the publisher does not see.
    #[error(
        "cannot create the ResourceSlice {name}: there is one of that name, which is not of this driver and node, or is being deleted; another name is tried"
    )]
    #[advice(code = "slice-request")]
    NameTaken { name: String },
    #[error("cannot {action}: no response from the API server in time")]
    #[advice(code = "slice-request-timeout")]
    TimedOut { action: &'static str },
}

// === impl SliceError ===

impl SliceError {
    /// Whether only another [`DesiredPool`](super::DesiredPool) helps.
    pub(super) const fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::DeviceName { .. }
                | Self::DuplicateDevice { .. }
                | Self::Counters { .. }
                | Self::NameTooLong { .. }
        )
    }

    /// Whether another writer was faster, so that the slices must be listed again.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::NameTaken { .. })
            || self.status() == Some(409)
            || self.status() == Some(404)
    }

    /// The error of a slice's creation, which says whether the name was the reason.
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

    /// The message with the API server's own message and the fix, for status and log.
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

/// The HTTP status of the API server's response; none if there was no response.
pub(super) fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
