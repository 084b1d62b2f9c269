//! Why a container cannot have its devices.

use std::io;

use super::Source;
use crate::one_line::OneLine;
use crate::{ConfigError, DeviceType, Unresolved};

/// Why there is no plan. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Names that have no device, every one of them.
    #[error("{}", list(.0))]
    Unresolved(Vec<Unresolved>),
    /// The container's config is not one.
    #[error(transparent)]
    Config(ConfigError),
    /// A spec leaves numbers to the host's node, and that cannot be looked at.
    #[error("{field}: cannot look at {} of the host", OneLine(host_path))]
    HostNode {
        /// The node's field.
        // Boxed, because an error is part of every result.
        field: Box<Source>,
        /// The path on the host.
        host_path: String,
        /// Why.
        source: io::Error,
    },
    /// A spec leaves numbers to the host's node, and that is something else.
    #[error("{field}: {} of the host is not a device node", OneLine(host_path))]
    NoDevice {
        /// The node's field.
        field: Box<Source>,
        /// The path on the host.
        host_path: String,
    },
    /// A spec leaves numbers to the host's node, and that has another type.
    #[error(
        "{field}: type is {:?} but {} of the host has {:?}",
        declared.as_str(),
        OneLine(host_path),
        found.as_str()
    )]
    OtherType {
        /// The node's field.
        field: Box<Source>,
        /// The path on the host.
        host_path: String,
        /// The type in the spec.
        declared: DeviceType,
        /// The type on the host.
        found: DeviceType,
    },
}

// === impl PlanError ===

impl PlanError {
    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unresolved(_) => "cdi-device-unresolved",
            Self::Config(error) => error.code(),
            Self::HostNode { .. } => "host-node-unreadable",
            Self::NoDevice { .. } => "host-node-no-device",
            Self::OtherType { .. } => "host-node-other-type",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unresolved(names) => names.first().map_or("", Unresolved::hint),
            Self::Config(error) => error.hint(),
            Self::HostNode { .. } => {
                "load the driver that makes the node, or give type, major and minor in the spec"
            }
            Self::NoDevice { .. } => {
                "give the node's own path (links are not followed), or type, major and minor"
            }
            Self::OtherType { .. } => "correct the type, or give a major with it",
        }
    }
}

fn list(names: &[Unresolved]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join("; ")
}
