//! Why a pool cannot be published at the moment.

use super::layout::MAX_NAME;

/// Why a pool cannot be published at the moment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SliceError {
    #[error("device name `{name}` is not a DNS label of at most 63 lower-case characters")]
    DeviceName { name: String },
    #[error("device name `{name}` is given twice, and names are unique in a pool")]
    DuplicateDevice { name: String },
    #[error("device `{name}` consumes counters, and this library publishes no counter sets")]
    Counters { name: String },
    #[error("the slice name {name} has {} characters, and the API server allows {MAX_NAME}", name.len())]
    NameTooLong { name: String },
    #[error("node {node} does not exist")]
    NoNode { node: String },
    #[error("the API server{} does not serve resource.k8s.io/v1", version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default())]
    NotServed { version: Option<String> },
    #[error("cannot {verb}")]
    Api {
        verb: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot {verb}: no answer from the API server in time")]
    TimedOut { verb: &'static str },
}

impl SliceError {
    /// Whether only a change of what is desired helps.
    pub(super) const fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::DeviceName { .. }
                | Self::DuplicateDevice { .. }
                | Self::Counters { .. }
                | Self::NameTooLong { .. }
        )
    }

    /// Whether another writer was faster: what is there has to be read again.
    pub(super) fn is_contested(&self) -> bool {
        self.status() == Some(409) || self.status() == Some(404)
    }

    /// The status of the API server's refusal.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => status(source),
            _ => None,
        }
    }

    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::DeviceName { .. } | Self::DuplicateDevice { .. } | Self::Counters { .. } => {
                "invalid-devices"
            }
            Self::NameTooLong { .. } => "slice-name-too-long",
            Self::NoNode { .. } => "no-node",
            Self::NotServed { .. } => "kubernetes-too-old",
            Self::Api { .. } => "slice-request",
            Self::TimedOut { .. } => "slice-request-timeout",
        }
    }

    /// What mends it, where the error does not say so itself.
    const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotServed { .. } => Some(
                "Kubernetes 1.34 or newer is needed, with this version of the API group enabled",
            ),
            Self::NoNode { .. } => Some("the node name must be the pod's spec.nodeName"),
            _ => None,
        }
    }

    /// The error with the API server's words and the fix, for the state and the log.
    pub(super) fn sentence(&self) -> String {
        match (self, self.hint()) {
            (Self::Api { source, .. }, _) => format!("{self}: {}", crate::text::reason(source)),
            (_, Some(hint)) => format!("{self}: {hint}"),
            (_, None) => self.to_string(),
        }
    }
}

/// The HTTP status of a refusal; None if there was no answer.
pub(super) fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
