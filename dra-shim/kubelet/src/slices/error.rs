//! Errors of publishing.

use crate::names::MAX_OBJECT_NAME;
use crate::text;

/// Why a pool cannot be published at the moment.
#[derive(Debug, thiserror::Error)]
pub(super) enum SliceError {
    #[error("device name `{name}` is not a DNS label of at most 63 lower-case characters")]
    DeviceName { name: String },
    #[error("device name `{name}` occurs twice, and names must be unique in a pool")]
    DuplicateDevice { name: String },
    #[error("device `{name}` consumes counters, and this library publishes no counter sets")]
    Counters { name: String },
    #[error("the slice name {name} has {} characters, and the API server allows {MAX_OBJECT_NAME}", name.len())]
    NameTooLong { name: String },
    #[error("node {node} does not exist")]
    NoNode { node: String },
    #[error("the API server{} does not serve resource.k8s.io/v1", version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default())]
    NotServed { version: Option<String> },
    #[error("cannot {action}")]
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
    NameTaken { name: String },
    #[error("cannot {action}: no response from the API server in time")]
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

    /// The code of [`Publication::Failing`](super::Publication::Failing).
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::DeviceName { .. } | Self::DuplicateDevice { .. } | Self::Counters { .. } => {
                "invalid-devices"
            }
            Self::NameTooLong { .. } => "slice-name-too-long",
            Self::NoNode { .. } => "no-node",
            Self::NotServed { .. } => "kubernetes-too-old",
            Self::Api { .. } | Self::NameTaken { .. } => "slice-request",
            Self::TimedOut { .. } => "slice-request-timeout",
        }
    }

    /// How to fix it, where the message does not say so.
    const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotServed { .. } => Some(
                "Kubernetes 1.34 or newer is needed, with this version of the API group enabled",
            ),
            Self::NoNode { .. } => Some("the node name must be the pod's spec.nodeName"),
            _ => None,
        }
    }

    /// The message with the API server's own message and the fix, for status and log.
    pub(super) fn full_message(&self) -> String {
        match (self, self.hint()) {
            (Self::Api { source, .. }, _) => format!("{self}: {}", text::root_cause(source)),
            (_, Some(hint)) => format!("{self}: {hint}"),
            (_, None) => self.to_string(),
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
