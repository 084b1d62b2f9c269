//! What a CDI device changes in a container.

use serde::{Deserialize, Serialize};

use crate::{Permissions, SpecVersion};

/// What a runtime does to a container that asks for a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerEdits {
    /// Environment variables as `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Device nodes to make, each with its rule in the device cgroup.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<DeviceNode>,
    /// OCI hooks to run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// File systems to mount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
}

/// A device node in the container.
///
/// With type and a non-zero major the node is fully specified: the runtime
/// makes it from these numbers and the host needs no such node. What is absent
/// is taken from the host's node at `host_path`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceNode {
    /// Path in the container.
    pub path: String,
    /// Path on the host; absent means the same as `path`. Needs CDI 0.5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// Kind of node.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub device_type: Option<DeviceType>,
    /// Device major. The CDI library reads 0 as absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<u32>,
    /// Device minor. The CDI library reads an absent one as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// Permission bits of the node; JSON has them in decimal (0o666 is 438).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// What the device cgroup allows; absent means everything (`rwm`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Owner in the container; absent means the process's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group in the container; absent means the process's group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// The kind of a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
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

/// An OCI hook.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// When it runs: an OCI hook name such as `createContainer`.
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
    pub timeout: Option<u32>,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Source on the host.
    pub host_path: String,
    /// Target in the container.
    pub container_path: String,
    /// Options of mount(8).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// File system type. Needs CDI 0.4.0.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub fs_type: Option<String>,
}

// === impl ContainerEdits ===

impl ContainerEdits {
    /// Whether the edits change nothing.
    pub fn is_empty(&self) -> bool {
        let Self {
            env,
            device_nodes,
            hooks,
            mounts,
        } = self;
        env.is_empty() && device_nodes.is_empty() && hooks.is_empty() && mounts.is_empty()
    }

    /// The lowest CDI version that has every edit in use.
    pub(crate) fn needed_version(&self) -> SpecVersion {
        if self.device_nodes.iter().any(|n| n.host_path.is_some()) {
            SpecVersion::V0_5_0
        } else if self.mounts.iter().any(|m| m.fs_type.is_some()) {
            SpecVersion::V0_4_0
        } else {
            SpecVersion::V0_3_0
        }
    }
}
