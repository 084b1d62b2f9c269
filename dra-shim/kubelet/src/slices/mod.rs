//! Publishing the node's devices: one `ResourceSlice` in a pool named after the
//! node, kept as the driver wants it whoever else touches it.
//!
//! ```text
//! desired (watch) ──┐
//! own watch of the  ├──> what is due ──> GET node ──> plan ──> create, replace,
//! node's slices  ───┤        ▲                       (pure)     delete
//! kubelet's Notify ─┘        └───────── back-off on errors ────────┘
//! ```

mod due;
mod plan;
mod publisher;
mod seen;

use k8s_openapi::api::resource::v1;

pub(crate) use publisher::Publisher;

/// What the node's pool should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Desired {
    /// Not known yet: whatever is published stays as it is.
    #[default]
    Undecided,
    /// Nothing: the driver's slices of this node are deleted.
    Withdrawn,
    /// These devices, at most 64 (an empty pool is valid).
    Devices(Vec<v1::Device>),
}

/// How publishing stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Publication {
    /// Nothing is decided, or the API server was not reached yet.
    #[default]
    Pending,
    /// The API server holds what is desired.
    Published {
        /// The `ResourceSlice`'s name.
        slice: String,
    },
    /// The API server holds no slice of this driver and node.
    Withdrawn,
    /// It does not work at the moment; the publisher tries on.
    Failing {
        /// A stable word for metrics: `too-many-devices`, `slice-name-too-long`,
        /// `no-node`, `slice-request`, `slice-request-timeout`, `watch-slices`.
        code: &'static str,
        /// Why, in one sentence.
        reason: String,
    },
}

/// Why a pool cannot be published at the moment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SliceError {
    #[error(
        "{count} devices are to be published, and one slice holds at most {}",
        plan::MAX_DEVICES
    )]
    TooManyDevices { count: usize },
    #[error("the slice name {name} has {} characters, and the API server allows {}", name.len(), plan::MAX_NAME)]
    NameTooLong { name: String },
    #[error("node {node} does not exist")]
    NoNode { node: String },
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
    fn is_permanent(&self) -> bool {
        matches!(self, Self::TooManyDevices { .. } | Self::NameTooLong { .. })
    }

    const fn code(&self) -> &'static str {
        match self {
            Self::TooManyDevices { .. } => "too-many-devices",
            Self::NameTooLong { .. } => "slice-name-too-long",
            Self::NoNode { .. } => "no-node",
            Self::Api { .. } => "slice-request",
            Self::TimedOut { .. } => "slice-request-timeout",
        }
    }

    /// The error with the API server's words, for the state and the log.
    fn sentence(&self) -> String {
        match self {
            Self::Api { source, .. } => format!("{self}: {}", crate::text::reason(source)),
            _ => self.to_string(),
        }
    }
}
