//! The devices of the spec.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use imex_cdi::{
    CHANNEL_DIR, ChannelId, ContainerEdits, Device, DeviceName, DeviceNode, DriverParams, HostNode,
    HostNodes, Major, Permissions, Spec, channel_edits,
};

use super::GenerateError;
use crate::args::NameStyle;
use crate::failure::note;
use crate::host_node::and_more;
use crate::root::Root;

/// The mode that the kubelet plugin gives a channel's node.
const PLUGIN_MODE: u32 = 0o666;

/// What the channels' nodes have in common.
pub(super) enum Template {
    /// The runtime makes them.
    Mknod { major: Major, owned: Owned },
    /// They are the host's, as they are when a container starts.
    HostPath { dev_root: PathBuf, owned: Owned },
}

/// Who may use a node. What is `None` is left to the runtime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owned {
    pub(super) file_mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) permissions: Permissions,
}

// === impl Owned ===

impl Owned {
    /// With what the driver gives the nodes on the host, where nothing else was
    /// said: some distributions have them for one group only.
    pub(super) fn or_of_driver(self, params: DriverParams) -> Self {
        Self {
            file_mode: self
                .file_mode
                .or(params.device_file_mode)
                .or(Some(PLUGIN_MODE)),
            uid: self.uid.or(params.device_file_uid),
            gid: self.gid.or(params.device_file_gid),
            permissions: self.permissions,
        }
    }

    fn put_on(self, node: &mut DeviceNode) {
        node.file_mode = self.file_mode;
        node.uid = self.uid;
        node.gid = self.gid;
        node.permissions = Some(self.permissions);
    }
}

// === impl Template ===

impl Template {
    pub(super) fn device(
        &self,
        channel: ChannelId,
        style: NameStyle,
    ) -> Result<Device, GenerateError> {
        let name = match style {
            NameStyle::Dashed => channel.device_name(),
            NameStyle::Node => named(format!("channel{channel}"))?,
            NameStyle::Number => named(channel.to_string())?,
        };
        Ok(Device {
            name,
            annotations: BTreeMap::new(),
            container_edits: self.edits(channel)?,
        })
    }

    fn edits(&self, channel: ChannelId) -> Result<ContainerEdits, GenerateError> {
        let (mut edits, owned) = match self {
            Self::Mknod { major, owned } => (channel_edits(channel, *major), owned),
            Self::HostPath { dev_root, owned } => (host_edits(channel, dev_root)?, owned),
        };
        for node in &mut edits.device_nodes {
            owned.put_on(node);
        }
        Ok(edits)
    }
}

fn host_edits(channel: ChannelId, dev_root: &Path) -> Result<ContainerEdits, GenerateError> {
    let path = format!("{CHANNEL_DIR}/channel{channel}");
    let host_path = dev_root.join(path.trim_start_matches('/'));
    let host_path = host_path.to_str().filter(|path| path.starts_with('/'));
    let host_path = host_path.ok_or_else(|| GenerateError::DevRoot {
        path: dev_root.to_owned(),
    })?;
    let node = DeviceNode {
        host_path: Some(host_path.to_owned()),
        path,
        device_type: None,
        major: None,
        minor: None,
        file_mode: None,
        permissions: None,
        uid: None,
        gid: None,
    };
    Ok(ContainerEdits {
        device_nodes: vec![node],
        ..ContainerEdits::default()
    })
}

/// Says which nodes a container could not be started with now. Someone may
/// make them before one is.
pub(super) fn note_absent(spec: &Spec, host: &Root) {
    let nodes = spec.devices().iter();
    let paths = nodes.flat_map(|device| &device.container_edits.device_nodes);
    let mut absent = paths
        .filter_map(|node| node.host_path.as_deref())
        .filter(|path| !matches!(host.lstat(path), Ok(HostNode::Device(_))));
    if let Some(first) = absent.next() {
        let why = match host.lstat(first) {
            Ok(_) => "is no device node".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "does not exist on this host".to_owned()
            }
            Err(error) => format!("cannot be looked at ({error})"),
        };
        let others = and_more(absent.count());
        note(&format!(
            "{first} {why}{others}: no container starts with it until it is made \
             (`nvidia-modprobe -i 0:1` makes channel 0); --mode mknod needs none"
        ));
    }
}

fn named(name: String) -> Result<DeviceName, GenerateError> {
    DeviceName::new(name).map_err(GenerateError::Name)
}
