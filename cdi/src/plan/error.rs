//! Why a container cannot get its devices.

use std::io;

use dra_common::{Advice, OneLine};

use super::Source;
use crate::{ConfigError, DeviceType, ResolveError};

/// Why there is no plan. Nothing has been changed.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum PlanError {
    /// All names that do not resolve.
    #[error("{}", list(.0))]
    #[advice(code = "cdi-device-unresolved", hint = _0.first().map_or("", ResolveError::hint))]
    Unresolved(Vec<ResolveError>),
    /// The container's config is malformed.
    #[error(transparent)]
    #[advice(from)]
    Config(ConfigError),
    /// A spec takes numbers from a node of the host, which cannot be inspected.
    #[error("{field}: cannot inspect {} on the host", OneLine(host_path))]
    #[advice(
        code = "host-node-unreadable",
        hint = "load the driver that creates the device node, or give type, major and minor in the spec"
    )]
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
    #[advice(
        code = "host-node-no-device",
        hint = "give the path of the device node itself (links are not followed), or give type, major and minor"
    )]
    NotADevice {
        /// The node's field.
        field: Box<Source>,
        /// The path on the host.
        host_path: String,
    },
    /// A spec takes numbers from a node of the host, which has another type than
    /// the spec declares.
    #[error(
        "{field}: the type is {:?}, but {} on the host has the type {:?}",
        declared.as_str(),
        OneLine(host_path),
        found.as_str()
    )]
    #[advice(
        code = "host-node-other-type",
        hint = "correct the type, or also give a major"
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

fn list(names: &[ResolveError]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join("; ")
}
