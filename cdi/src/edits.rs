//! The changes that a CDI device makes to a container.
//!
//! Keys are those of the CDI specification 1.1.0 (`specs-go/config.go`), omitted
//! when empty as by Go's `omitempty`, except that a device number 0 is written.
//! Unknown keys are refused, as by Go's library.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Permissions;
use crate::go_serde::{exact, is_default, is_unset, mapping_only, text};

/// What a runtime changes in a container that requests a device.
// req: CDI-17
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerEdits {
    /// Environment variables as `NAME=value`.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub env: Vec<String>,
    /// Device nodes to make, each with its rule in the device cgroup.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub device_nodes: Vec<DeviceNode>,
    /// Network devices of the host to move into the container. Needs CDI 1.1.0.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub net_devices: Vec<NetDevice>,
    /// OCI hooks to run.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub hooks: Vec<Hook>,
    /// File systems to mount.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub mounts: Vec<Mount>,
    /// Cache and memory bandwidth of the container. Needs CDI 0.7.0. Boxed: most
    /// devices have none, and a host can have 100 000s of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub intel_rdt: Option<Box<IntelRdt>>,
    /// Supplementary groups of the container's process; 0 is ignored. Needs CDI
    /// 0.7.0.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub additional_gids: Vec<u32>,
}

/// A device node in the container.
///
/// With a type and a non-zero major the node is fully specified: the runtime
/// makes it from these numbers, and the host needs no such node. Absent numbers
/// are taken from the host's node at `host_path`.
///
/// The default has an empty path, which a [`Spec`](crate::Spec) refuses. The same
/// is true of the defaults of [`NetDevice`], [`Hook`] and [`Mount`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceNode {
    /// Path in the container.
    pub path: String,
    /// Path on the host; absent means the same as `path`. Needs CDI 0.5.0.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "is_unset")]
    pub host_path: Option<String>,
    /// Kind of node.
    #[serde(rename = "type")]
    #[serde(default, deserialize_with = "text", skip_serializing_if = "is_default")]
    pub device_type: Option<DeviceType>,
    /// Device major. The CDI library reads 0 as absent, and takes any number
    /// that 64 bits hold, as OCI does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub major: Option<i64>,
    /// Device minor. The CDI library reads an absent one as 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub minor: Option<i64>,
    /// Permission bits of the node, decimal in JSON (0o666 is 438).
    #[serde(default, skip_serializing_if = "is_default")]
    pub file_mode: Option<u32>,
    /// What the device cgroup allows; absent means everything (`rwm`).
    #[serde(default, deserialize_with = "text", skip_serializing_if = "is_default")]
    pub permissions: Option<Permissions>,
    /// Owner in the container; absent means the process's user.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uid: Option<u32>,
    /// Group in the container; absent means the process's group.
    #[serde(default, skip_serializing_if = "is_default")]
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
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct IntelRdt {
    /// Class of service: a directory of resctrl, or `/` for its root group.
    #[serde(rename = "closID", default, skip_serializing_if = "is_default")]
    pub clos_id: String,
    /// L3 cache schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub l3_cache_schema: String,
    /// Memory bandwidth schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mem_bw_schema: String,
    /// Schemata, one line each. Needs CDI 1.1.0, even if the list is empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub schemata: Option<Vec<String>>,
    /// Whether the container is monitored. Needs CDI 1.1.0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_monitoring: bool,
}

/// An OCI hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// When it runs, one of [`NAMES`](Self::NAMES).
    pub hook_name: String,
    /// Program, an absolute path on the host.
    pub path: String,
    /// Arguments, starting with the program's name.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub args: Vec<String>,
    /// Environment as `NAME=value`.
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub env: Vec<String>,
    /// Seconds after which the runtime kills it.
    #[serde(default, skip_serializing_if = "is_default")]
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
    #[serde(
        default,
        deserialize_with = "exact",
        skip_serializing_if = "is_default"
    )]
    pub options: Vec<String>,
    /// File system type. Needs CDI 0.4.0.
    #[serde(rename = "type")]
    #[serde(default, deserialize_with = "text", skip_serializing_if = "is_unset")]
    pub fs_type: Option<String>,
}

/// A string that is not the letter of a [`DeviceType`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("device type {0:?} is not b, c, u or p")]
pub struct UnknownDeviceType(String);

mapping_only!(ContainerEdits, DeviceNode, NetDevice, IntelRdt, Hook, Mount);

// === impl ContainerEdits ===

impl ContainerEdits {
    /// Whether the edits change nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

// === impl Hook ===

impl Hook {
    /// The moments of a container's life that OCI has hooks for, as
    /// [`hook_name`](Self::hook_name) spells them.
    pub const NAMES: [&str; 6] = [
        "prestart",
        "createRuntime",
        "createContainer",
        "startContainer",
        "poststart",
        "poststop",
    ];
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
