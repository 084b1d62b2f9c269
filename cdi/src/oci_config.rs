//! Changing a container's OCI config.
//!
//! [`OciConfig`] has a method for each thing that a CDI edit can change. It is
//! implemented for `serde_json::Value`, which preserves unknown fields, with the
//! feature `oci` for `oci_spec::runtime::Spec`, and with the feature `nri` for a
//! container that a plugin of NRI adjusts. A runtime with another type implements it
//! for that.

mod entries;
mod json;
pub(crate) mod lists;
#[cfg(feature = "oci")]
mod typed;
mod validate;

use std::fmt;

use dra_common::{Advice, OneLine};

use crate::{DeviceType, Hook, IntelRdt, Mount, Permissions};

/// A container's OCI config (`config.json` of a bundle).
///
/// # Contract
///
/// [`Plan::new`](crate::Plan::new) calls [`facts`](Self::facts), once.
/// [`Plan::apply`](crate::Plan::apply) calls the other methods, on the config that
/// the plan was made for, so each may assume that `facts` accepted it. All run on
/// the thread of their caller and only edit memory: no I/O, no blocking.
///
/// The methods of `apply` cannot fail: whatever could go wrong is found by `facts`.
/// A missing section is created with the least that OCI's schema requires, without defaults: a
/// new `process` has the user 0:0 and an empty `cwd`, as in Go's library. Fields that no argument
/// names are unchanged.
///
/// A method that takes a slice is called at most once in an `apply`, with all
/// items of the plan in their order and never with none, so that it can search the
/// config once. The others are called once for each item.
pub trait OciConfig {
    /// What a plan must know of the container.
    ///
    /// Called before anything is changed.
    ///
    /// # Errors
    ///
    /// A section that one of the other methods relies on is malformed. All such
    /// sections are checked, whatever the plan will change, so that the result
    /// depends on the config alone.
    fn facts(&self) -> Result<ContainerFacts, ConfigError>;

    /// Sets environment variables of the process. Each of `assignments` is
    /// `NAME=value`; it replaces the last variable of that name in place, or is
    /// appended.
    fn set_env(&mut self, assignments: &[&str]);

    /// Adds device nodes for the runtime to make. For each, the first node at its path
    /// is removed, also if it is an earlier one of `devices`; then it replaces the
    /// next node at that path, or is appended.
    fn set_devices(&mut self, devices: &[&PlannedDevice]);

    /// Appends a rule to the device cgroup. Existing rules stay, even equal ones.
    fn allow_device(&mut self, rule: &DeviceRule);

    /// Moves the host's network device `host_name` into the container as `name`,
    /// instead of what the config had for `host_name`.
    fn set_net_device(&mut self, host_name: &str, name: &str);

    /// Adds mounts. Each replaces the first mount at its target. Then all mounts,
    /// old and new, are stably sorted by the depth of their targets, so that no
    /// mount hides one that was made before it.
    fn set_mounts(&mut self, mounts: &[&Mount]);

    /// Appends `hook` to the hooks of its name, which is one of [`Hook::NAMES`].
    fn add_hook(&mut self, hook: &Hook);

    /// Replaces the whole section of cache and memory bandwidth.
    fn set_intel_rdt(&mut self, rdt: &IntelRdt);

    /// Adds supplementary groups to the process, except those that it has. 0 is
    /// never among `gids`.
    fn add_gids(&mut self, gids: &[u32]);
}

/// What a plan must know of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// User of its process, 0 without a process: the owner of device nodes whose
    /// spec names none.
    pub uid: u32,
    /// Group of its process, 0 without a process.
    pub gid: u32,
}

/// A device node for the runtime to make: the spec's, completed from the host's
/// node and the container's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedDevice {
    /// Path in the container.
    pub path: String,
    /// Kind of node.
    pub device_type: DeviceType,
    /// Device major; meaningless for a fifo.
    pub major: i64,
    /// Device minor; meaningless for a fifo.
    pub minor: i64,
    /// Permission bits; `None` leaves them to the runtime.
    pub file_mode: Option<u32>,
    /// Owner in the container; `None` leaves it to the runtime.
    pub uid: Option<u32>,
    /// Group in the container; `None` leaves it to the runtime.
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
    /// What is allowed: at least one permission.
    pub access: Permissions,
}

/// A section of an OCI config that is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[error("OCI config: {} is not {expected}", OneLine(shown(pointer)))]
#[advice(
    code = "oci-config-malformed",
    hint = "pass the config.json of an OCI bundle, as the runtime reads it"
)]
pub struct ConfigError {
    /// Where, as JSON pointer (RFC 6901); empty for the config itself.
    pub pointer: String,
    /// What OCI requires there.
    pub expected: Expected,
}

/// What OCI requires at a place of a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A string.
    Text,
    /// A user or group id: an unsigned 32-bit integer.
    Id,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "a string",
            Self::Id => "an unsigned 32-bit integer",
        })
    }
}

fn shown(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the whole"
    } else {
        pointer
    }
}
