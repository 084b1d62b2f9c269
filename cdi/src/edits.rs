//! What a CDI device changes in a container.

mod check;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Permissions, de};

pub use check::EditFault;
#[cfg(feature = "inject")]
pub(crate) use check::HOOK_NAMES;

/// What a runtime does to a container that asks for a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    remote = "Self",
    rename_all = "camelCase",
    default,
    deny_unknown_fields
)]
pub struct ContainerEdits {
    /// Environment variables as `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Device nodes to make, each with its rule in the device cgroup.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<DeviceNode>,
    /// Network devices of the host to move into the container. Needs CDI 1.1.0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub net_devices: Vec<NetDevice>,
    /// OCI hooks to run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// File systems to mount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Cache and memory bandwidth of the container. Needs CDI 0.7.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intel_rdt: Option<IntelRdt>,
    /// Further groups of the container's process; 0 is passed over. Needs CDI
    /// 0.7.0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_gids: Vec<u32>,
}

/// A device node in the container.
///
/// With type and a non-zero major the node is fully specified: the runtime
/// makes it from these numbers and the host needs no such node. What is absent
/// is taken from the host's node at `host_path`.
///
/// The default has no path, which no [`Spec`](crate::Spec) accepts; so it is with
/// the defaults of network devices, hooks and mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceNode {
    /// Path in the container.
    pub path: String,
    /// Path on the host; absent means the same as `path`. Needs CDI 0.5.0.
    #[serde(
        default,
        deserialize_with = "de::non_empty",
        skip_serializing_if = "is_unset"
    )]
    pub host_path: Option<String>,
    /// Kind of node.
    #[serde(
        rename = "type",
        default,
        deserialize_with = "de::non_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub device_type: Option<DeviceType>,
    /// Device major. The CDI library reads 0 as absent, and takes any number
    /// that 64 bits hold, as OCI does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<i64>,
    /// Device minor. The CDI library reads an absent one as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<i64>,
    /// Permission bits of the node; JSON has them in decimal (0o666 is 438).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// What the device cgroup allows; absent means everything (`rwm`).
    #[serde(
        default,
        deserialize_with = "de::non_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub permissions: Option<Permissions>,
    /// Owner in the container; absent means the process's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group in the container; absent means the process's group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// The kind of a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum DeviceType {
    /// Block device.
    #[serde(rename = "b")]
    Block,
    /// Character device.
    #[serde(rename = "c")]
    Char,
    /// Unbuffered character device. Runtimes add no cgroup rule for it.
    #[serde(rename = "u")]
    Unbuffered,
    /// Named pipe.
    #[serde(rename = "p")]
    Fifo,
}

/// A network device of the host that a container takes over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct NetDevice {
    /// Its name on the host, unique among the edits.
    pub host_interface_name: String,
    /// Its name in the container, unique among the edits.
    pub name: String,
}

/// Intel Resource Director Technology, as in OCI's `linux.intelRdt`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    remote = "Self",
    rename_all = "camelCase",
    default,
    deny_unknown_fields
)]
pub struct IntelRdt {
    /// Class of service: a directory of resctrl, or `/` for its root.
    #[serde(rename = "closID", skip_serializing_if = "String::is_empty")]
    pub clos_id: String,
    /// L3 cache schema.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub l3_cache_schema: String,
    /// Memory bandwidth schema.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mem_bw_schema: String,
    /// Schemata, a line each. Needs CDI 1.1.0, also when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schemata: Option<Vec<String>>,
    /// Whether the container is monitored. Needs CDI 1.1.0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_monitoring: bool,
}

/// An OCI hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// When it runs: `prestart`, `createRuntime`, `createContainer`,
    /// `startContainer`, `poststart` or `poststop`.
    pub hook_name: String,
    /// Program, an absolute path on the host.
    pub path: String,
    /// Arguments, the first being the program's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment as `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Seconds until the runtime gives up on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

/// A mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Mount {
    /// Source on the host.
    pub host_path: String,
    /// Target in the container.
    pub container_path: String,
    /// Options of mount(8).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// File system type. Needs CDI 0.4.0.
    #[serde(
        rename = "type",
        default,
        deserialize_with = "de::non_empty",
        skip_serializing_if = "is_unset"
    )]
    pub fs_type: Option<String>,
}

/// A letter that is no kind of device node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("device type {0:?} is none of b, c, u and p")]
pub struct UnknownDeviceType(String);

de::mappings!(ContainerEdits, DeviceNode, NetDevice, IntelRdt, Hook, Mount);

// === impl ContainerEdits ===

impl ContainerEdits {
    /// Whether the edits change nothing.
    pub fn is_empty(&self) -> bool {
        let Self {
            env,
            device_nodes,
            net_devices,
            hooks,
            mounts,
            intel_rdt,
            additional_gids,
        } = self;
        env.is_empty()
            && device_nodes.is_empty()
            && net_devices.is_empty()
            && hooks.is_empty()
            && mounts.is_empty()
            && intel_rdt.is_none()
            && additional_gids.is_empty()
    }
}

/// What Go's `omitempty` leaves out: Go has no absent string.
#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(crate) fn is_unset(text: &Option<String>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}

// === impl DeviceType ===

impl DeviceType {
    /// The letter that CDI and OCI write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "b",
            Self::Char => "c",
            Self::Unbuffered => "u",
            Self::Fifo => "p",
        }
    }
}

impl FromStr for DeviceType {
    type Err = UnknownDeviceType;

    fn from_str(text: &str) -> Result<Self, UnknownDeviceType> {
        match text {
            "b" => Ok(Self::Block),
            "c" => Ok(Self::Char),
            "u" => Ok(Self::Unbuffered),
            "p" => Ok(Self::Fifo),
            _ => Err(UnknownDeviceType(text.to_owned())),
        }
    }
}
