//! Why a container cannot get its devices.

use std::io;

use super::Source;
use crate::one_line::OneLine;
use crate::{ConfigError, DeviceType, ResolveError};

/// Why there is no plan. Nothing has been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// All names that do not resolve.
    #[error("{}", list(.0))]
    Unresolved(Vec<ResolveError>),
    /// The container's config is malformed.
    #[error(transparent)]
    Config(ConfigError),
    /// A spec takes numbers from a node of the host, which cannot be inspected.
    #[error("{field}: cannot inspect {} on the host", OneLine(host_path))]
    HostNode {
        /// The node's field.
        // Boxed, because an error is part of every result.
        field: Box<Source>,
        /// The path on the host.
        host_path: String,
        /// Why.
        source: io::Error,
    },
    /// A spec takes numbers from a node of the host, which is not a device node.
    #[error("{field}: {} on the host is not a device node", OneLine(host_path))]
    NotADevice {
        /// The node's field.
        field: Box<Source>,
        /// The path on the host.
        host_path: String,
    },
    /// A spec takes numbers from a node of the host, which has another type than
    /// the spec declares.
    #[error(
        "{field}: type is {:?} but {} on the host has {:?}",
        declared.as_str(),
        OneLine(host_path),
        found.as_str()
    )]
    TypeMismatch {
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
            Self::NotADevice { .. } => "host-node-no-device",
            Self::TypeMismatch { .. } => "host-node-other-type",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unresolved(names) => names.first().map_or("", ResolveError::hint),
            Self::Config(error) => error.hint(),
            Self::HostNode { .. } => {
                "load the driver that makes the node, or give type, major and minor in the spec"
            }
            Self::NotADevice { .. } => {
                "give the node's own path (links are not followed), or type, major and minor"
            }
            Self::TypeMismatch { .. } => "correct the type, or give a major with it",
        }
    }
}

fn list(names: &[ResolveError]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join("; ")
}
