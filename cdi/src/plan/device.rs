//! A device node of a CDI spec, completed from the host's node.
//!
//! Follows `fillMissingInfo` in `pkg/cdi/container-edits_unix.go` of the Go
//! library 1.1.0, but without its side effect: Go's library stores what it found in
//! its cached spec, so after a driver is reloaded with another major, containers
//! still get the old one.

use super::{HostDevice, HostNode, HostNodes, PlanError, Source};
use crate::{ContainerFacts, DeviceNode, DeviceRule, DeviceType, Permissions, PlannedDevice};

/// The meaning of absent and of empty permissions.
const ALL: Permissions = Permissions {
    read: true,
    write: true,
    mknod: true,
};

/// The device that the runtime has to make for `node`.
// req: CDI-21
pub(super) fn fill_in(
    node: &DeviceNode,
    source: &Source,
    container: ContainerFacts,
    host: &dyn HostNodes,
) -> Result<PlannedDevice, PlanError> {
    let (found, numbers) = if let Some(numbers) = specified(node) {
        // Of the host's node, if there is one, only the mode is used.
        (lookup(node, source, host).ok(), numbers)
    } else {
        let found = lookup(node, source, host)?;
        (Some(found), numbers_from_host(node, source, found)?)
    };
    let Numbers {
        device_type,
        major,
        minor,
    } = numbers;
    // Runtimes give a node without an owner to root, so root is never named.
    let owner = |declared: Option<u32>, process: u32| match (declared, process) {
        (None, 1..) => Some(process),
        _ => declared,
    };
    let host_mode = found.map(|found| found.mode);
    Ok(PlannedDevice {
        path: node.path.clone(),
        device_type,
        major,
        minor,
        file_mode: node.file_mode.or(host_mode),
        uid: owner(node.uid, container.uid),
        gid: owner(node.gid, container.gid),
    })
}

/// The rule of the device cgroup for `device`, which was made for `node`. A fifo
/// needs none; Go's library makes none for an unbuffered device.
// req: CDI-22
pub(super) fn rule(node: &DeviceNode, device: &PlannedDevice) -> Option<DeviceRule> {
    let PlannedDevice {
        device_type,
        major,
        minor,
        ..
    } = *device;
    matches!(device_type, DeviceType::Block | DeviceType::Char).then(|| DeviceRule {
        device_type,
        major,
        minor,
        access: node
            .permissions
            .filter(|access| !access.is_none())
            .unwrap_or(ALL),
    })
}

struct Numbers {
    device_type: DeviceType,
    major: i64,
    minor: i64,
}

/// The numbers in `node` if it is fully specified: it has a type, and a major
/// other than 0 unless it is a fifo.
fn specified(node: &DeviceNode) -> Option<Numbers> {
    let (device_type, major) = (node.device_type?, node.major.unwrap_or_default());
    (major != 0 || device_type == DeviceType::Fifo).then(|| Numbers {
        device_type,
        major,
        minor: node.minor.unwrap_or_default(),
    })
}

/// The numbers in `node`, with missing ones taken from the host's `found`.
fn numbers_from_host(
    node: &DeviceNode,
    source: &Source,
    found: HostDevice,
) -> Result<Numbers, PlanError> {
    let device_type = node.device_type.unwrap_or(found.device_type);
    if device_type != found.device_type {
        return Err(PlanError::TypeMismatch {
            field: Box::new(source.clone()),
            host_path: host_path(node).to_owned(),
            declared: device_type,
            found: found.device_type,
        });
    }
    let own_major = node.major.unwrap_or_default();
    let (major, minor) = if device_type == DeviceType::Fifo || own_major != 0 {
        (own_major, node.minor.unwrap_or_default())
    } else {
        (found.major, found.minor)
    };
    Ok(Numbers {
        device_type,
        major,
        minor,
    })
}

fn lookup(
    node: &DeviceNode,
    source: &Source,
    host: &dyn HostNodes,
) -> Result<HostDevice, PlanError> {
    let host_path = host_path(node);
    match host.lstat(host_path) {
        Ok(HostNode::Device(device)) => Ok(device),
        Ok(HostNode::NotADevice) => Err(PlanError::NotADevice {
            field: Box::new(source.clone()),
            host_path: host_path.to_owned(),
        }),
        Err(error) => Err(PlanError::HostNode {
            field: Box::new(source.clone()),
            host_path: host_path.to_owned(),
            source: error,
        }),
    }
}

/// An empty host path is absent, as in Go.
fn host_path(node: &DeviceNode) -> &str {
    let host_path = node.host_path.as_deref();
    host_path
        .filter(|path| !path.is_empty())
        .unwrap_or(&node.path)
}
