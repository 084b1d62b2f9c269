//! One change of a container, and the field that it comes from.

use std::fmt;
use std::path::{Path, PathBuf};

use dra_common::OneLine;

use crate::{
    DeviceRule, DeviceType, Hook, IntelRdt, Mount, NetDevice, PlannedDevice, QualifiedName,
    Resolved,
};

/// One change of a container's config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The field that it comes from.
    pub source: Source,
    /// The change.
    pub change: Change,
}

/// A field of a CDI spec file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// The device whose edits have the field; `None` for the spec's own edits, which
    /// apply to every container with one of its devices.
    pub device: Option<QualifiedName>,
    /// Path of the field in the file, `devices[3].containerEdits.env[0]`.
    pub field: String,
}

/// A change of a container's config: a method of [`OciConfig`](crate::OciConfig)
/// with one argument of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Set a variable, `NAME=value`.
    SetEnv(String),
    /// Make a device node.
    SetDevice(PlannedDevice),
    /// Let the container use a device.
    AllowDevice(DeviceRule),
    /// Move a network device.
    SetNetDevice(NetDevice),
    /// Mount a file system.
    SetMount(Mount),
    /// Run a hook.
    AddHook(Hook),
    /// Set cache and memory bandwidth.
    SetIntelRdt(IntelRdt),
    /// Add a group to the process.
    AddGid(u32),
}

/// The spec or device whose edits are being planned.
pub(super) struct Owner {
    file: PathBuf,
    device: Option<QualifiedName>,
    /// Path of its `containerEdits` in the file.
    edits: String,
}

// === impl Change ===

impl fmt::Display for Change {
    /// One line, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetEnv(assignment) => write!(f, "set {}", OneLine(assignment)),
            Self::SetDevice(device) => write!(f, "make {device}"),
            Self::AllowDevice(rule) => write!(f, "allow {rule}"),
            Self::SetNetDevice(device) => {
                let NetDevice {
                    host_interface_name,
                    name,
                } = device;
                let (from, to) = (OneLine(host_interface_name), OneLine(name));
                write!(f, "move network device {from} into the container as {to}")
            }
            Self::SetMount(mount) => {
                let (from, to) = (OneLine(&mount.host_path), OneLine(&mount.container_path));
                write!(f, "mount {from} at {to}")
            }
            Self::AddHook(hook) => write!(f, "run {} at {}", OneLine(&hook.path), hook.hook_name),
            Self::SetIntelRdt(rdt) => write!(f, "set Intel RDT class {:?}", rdt.clos_id),
            Self::AddGid(gid) => write!(f, "add group {gid}"),
        }
    }
}

impl fmt::Display for PlannedDevice {
    /// `/dev/x c 1:3 mode 0666 user 7 group 8`, without what the runtime decides.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", OneLine(&self.path), self.device_type.as_str())?;
        if self.device_type != DeviceType::Fifo {
            write!(f, " {}:{}", self.major, self.minor)?;
        }
        if let Some(mode) = self.file_mode {
            write!(f, " mode {mode:04o}")?;
        }
        if let Some(uid) = self.uid {
            write!(f, " user {uid}")?;
        }
        if let Some(gid) = self.gid {
            write!(f, " group {gid}")?;
        }
        Ok(())
    }
}

impl fmt::Display for DeviceRule {
    /// `c 1:3 rw`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, access) = (self.device_type.as_str(), String::from(self.access));
        write!(f, "{kind} {}:{} {access}", self.major, self.minor)
    }
}

// === impl Source ===

impl fmt::Display for Source {
    /// The file and the field, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", OneLine(self.file.display()), self.field)
    }
}

// === impl Owner ===

impl Owner {
    /// Edits that are in no spec.
    pub(super) fn origin(path: &Path) -> Self {
        Self {
            file: path.to_owned(),
            device: None,
            edits: "containerEdits".to_owned(),
        }
    }

    /// The spec that defines `resolved`.
    pub(super) fn spec(resolved: &Resolved<'_>) -> Self {
        Self::origin(&resolved.file.path)
    }

    /// The device itself.
    pub(super) fn device(resolved: &Resolved<'_>) -> Self {
        Self {
            file: resolved.file.path.clone(),
            device: Some(resolved.name()),
            edits: format!("devices[{}].containerEdits", resolved.index),
        }
    }

    pub(super) fn source(&self, field: &str) -> Source {
        Source {
            file: self.file.clone(),
            device: self.device.clone(),
            field: format!("{}.{field}", self.edits),
        }
    }
}
