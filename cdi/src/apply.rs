//! What a container's OCI config must offer for CDI devices to get into it.
//!
//! [`OciConfig`] has a primitive for each thing that a CDI edit can change.
//! [`Plan::apply`](crate::Plan::apply) calls nothing else, so whoever holds a
//! config in another form implements this trait. Here it is implemented for
//! `serde_json::Value`, which keeps what it does not know, and with the
//! feature `oci` for `oci_spec::runtime::Spec`.

mod elements;
mod json;
mod lists;
mod shape;
#[cfg(feature = "oci")]
mod typed;

use std::fmt;

use crate::one_line::OneLine;
use crate::{DeviceType, Hook, IntelRdt, Mount, Permissions};

/// A container's OCI config (`config.json` of a bundle).
///
/// The primitives cannot fail: what could make them is found by
/// [`facts`](Self::facts) before the first is called. A section that is
/// missing is made with the least that is valid, never with defaults that the
/// container did not ask for. Those that look for what is there already get all
/// that a plan has for them at once, never nothing, so that they look once.
pub trait OciConfig {
    /// What a plan must know of the container; an error if a section that a
    /// primitive may change has another shape than OCI gives it.
    fn facts(&self) -> Result<ContainerFacts, ConfigError>;

    /// Sets variables of the container's process, given as `NAME=value`, one
    /// after the other.
    fn set_env(&mut self, assignments: &[&str]);

    /// Has device nodes made in the container, one after the other, each instead
    /// of any at its path.
    fn set_devices(&mut self, devices: &[&PlannedDevice]);

    /// Lets the container use a device, beside what it may use already.
    fn allow_device(&mut self, rule: &DeviceRule);

    /// Moves the host's network device `host_name` into the container as
    /// `name`.
    fn set_net_device(&mut self, host_name: &str, name: &str);

    /// Mounts file systems, one after the other, each instead of the first at its
    /// target; then sorts all mounts by depth of their target, those of one depth
    /// in their order.
    fn set_mounts(&mut self, mounts: &[&Mount]);

    /// Runs `hook` at the moment that its name says, after those already there.
    fn add_hook(&mut self, hook: &Hook);

    /// Sets cache and memory bandwidth, instead of all there was.
    fn set_intel_rdt(&mut self, rdt: &IntelRdt);

    /// Adds groups to the container's process, each unless it has it.
    fn add_gids(&mut self, gids: &[u32]);
}

/// What planning must know of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// User of its process; 0 without a process. Owns the nodes that name no
    /// owner.
    pub uid: u32,
    /// Group of its process; 0 without a process.
    pub gid: u32,
}

/// A device node as the runtime shall make it: all that a CDI spec left open
/// is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedDevice {
    /// Path in the container.
    pub path: String,
    /// Kind of node.
    pub device_type: DeviceType,
    /// Device major; means nothing for a fifo.
    pub major: i64,
    /// Device minor; means nothing for a fifo.
    pub minor: i64,
    /// Permission bits; absent leaves them to the runtime.
    pub file_mode: Option<u32>,
    /// Owner in the container; absent leaves it to the runtime.
    pub uid: Option<u32>,
    /// Group in the container; absent leaves it to the runtime.
    pub gid: Option<u32>,
}

/// A rule of the device cgroup that allows something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRule {
    /// Block or character device.
    pub device_type: DeviceType,
    /// Device major.
    pub major: i64,
    /// Device minor.
    pub minor: i64,
    /// What is allowed, never nothing.
    pub access: Permissions,
}

/// An OCI config in which a section has another shape than OCI gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("OCI config: {} is not {expected}", OneLine(place(pointer)))]
pub struct ConfigError {
    /// Where, as JSON pointer (RFC 6901); empty for the config itself.
    pub pointer: String,
    /// What OCI has there.
    pub expected: Expected,
}

/// What OCI has at a place of a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A string.
    Text,
    /// A user or group id: a whole number of 32 bits.
    Id,
}

// === impl ConfigError ===

impl ConfigError {
    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        "oci-config-malformed"
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        "give the config.json of an OCI bundle, as the runtime that starts the container takes it"
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "a string",
            Self::Id => "a whole number of 32 bits",
        })
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the whole"
    } else {
        pointer
    }
}
