//! What a CDI device changes in a container.

use std::fmt;

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

/// What the CDI library refuses in a field of [`ContainerEdits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditFault {
    /// A path without a character.
    EmptyPath,
    /// An environment variable without `=`, or without a name before it.
    NotAssigned,
    /// A hook at a moment that OCI does not have.
    UnknownHook,
}

/// The OCI hooks.
const HOOK_NAMES: [&str; 6] = [
    "prestart",
    "createRuntime",
    "createContainer",
    "startContainer",
    "poststart",
    "poststop",
];

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

    /// The first field that the CDI library refuses (`Validate` in its
    /// `pkg/cdi/container-edits.go`), as path in JSON. What it checks besides
    /// (node types, permissions, negative numbers) the types already exclude.
    pub(crate) fn check(&self) -> Result<(), (String, EditFault)> {
        check_env("env", &self.env)?;
        for (at, node) in self.device_nodes.iter().enumerate() {
            check_path(&node.path, || format!("deviceNodes[{at}].path"))?;
        }
        for (at, hook) in self.hooks.iter().enumerate() {
            if !HOOK_NAMES.contains(&hook.hook_name.as_str()) {
                return Err((format!("hooks[{at}].hookName"), EditFault::UnknownHook));
            }
            check_path(&hook.path, || format!("hooks[{at}].path"))?;
            check_env(&format!("hooks[{at}].env"), &hook.env)?;
        }
        for (at, mount) in self.mounts.iter().enumerate() {
            check_path(&mount.host_path, || format!("mounts[{at}].hostPath"))?;
            check_path(&mount.container_path, || {
                format!("mounts[{at}].containerPath")
            })?;
        }
        Ok(())
    }
}

fn check_env(field: &str, env: &[String]) -> Result<(), (String, EditFault)> {
    let assigned = |variable: &String| variable.find('=').is_some_and(|name_len| name_len > 0);
    match env.iter().position(|variable| !assigned(variable)) {
        Some(at) => Err((format!("{field}[{at}]"), EditFault::NotAssigned)),
        None => Ok(()),
    }
}

fn check_path(path: &str, field: impl FnOnce() -> String) -> Result<(), (String, EditFault)> {
    if path.is_empty() {
        Err((field(), EditFault::EmptyPath))
    } else {
        Ok(())
    }
}

// === impl EditFault ===

impl EditFault {
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::EmptyPath => "give the full path",
            Self::NotAssigned => "write the variable as NAME=value",
            Self::UnknownHook => {
                "use prestart, createRuntime, createContainer, startContainer, poststart or \
                 poststop"
            }
        }
    }
}

impl fmt::Display for EditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyPath => "is empty",
            Self::NotAssigned => "is not NAME=value",
            Self::UnknownHook => "is no OCI hook",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault(edits: Value) -> Option<(String, EditFault)> {
        let edits: ContainerEdits = serde_json::from_value(edits).unwrap();
        edits.check().err()
    }

    #[test]
    fn every_field_that_the_cdi_library_refuses_is_refused_by_its_path() {
        use EditFault::{EmptyPath, NotAssigned, UnknownHook};
        let hook = |name: &str, path: &str, env: &str| json!({"hooks": [{"hookName": name, "path": path, "env": [env]}]});
        let mount = |host: &str, container: &str| {
            json!({"mounts": [
                {"hostPath": "/a", "containerPath": "/b"},
                {"hostPath": host, "containerPath": container},
            ]})
        };
        let cases = [
            (json!({"env": ["A=b", "A"]}), "env[1]", NotAssigned),
            (json!({"env": ["=b"]}), "env[0]", NotAssigned),
            (json!({"env": [""]}), "env[0]", NotAssigned),
            (
                json!({"deviceNodes": [{"path": ""}]}),
                "deviceNodes[0].path",
                EmptyPath,
            ),
            (
                hook("prestop", "/h", "A="),
                "hooks[0].hookName",
                UnknownHook,
            ),
            (
                hook("Prestart", "/h", "A="),
                "hooks[0].hookName",
                UnknownHook,
            ),
            (hook("prestart", "", "A="), "hooks[0].path", EmptyPath),
            (hook("prestart", "/h", "A"), "hooks[0].env[0]", NotAssigned),
            (mount("", "/b"), "mounts[1].hostPath", EmptyPath),
            (mount("/a", ""), "mounts[1].containerPath", EmptyPath),
        ];
        for (edits, field, what) in cases {
            assert_eq!(
                fault(edits.clone()),
                Some((field.to_owned(), what)),
                "{edits}"
            );
        }
    }

    #[test]
    fn fields_that_the_cdi_library_accepts_are_accepted() {
        let hooks: Vec<_> = HOOK_NAMES
            .map(|name| json!({"hookName": name, "path": "relative", "env": ["A=b=c"]}))
            .into();
        let edits = json!({
            "env": ["A=", "A=b=c"],
            "deviceNodes": [{"path": "dev"}],
            "hooks": hooks,
            "mounts": [{"hostPath": "a", "containerPath": "b"}],
        });
        assert_eq!(fault(edits), None);
    }
}
