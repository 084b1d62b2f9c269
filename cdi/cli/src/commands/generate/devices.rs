//! The devices of the spec.

use std::collections::BTreeMap;
use std::io;

use host_doctor::{MAKE_CHANNEL, Root, and_more};
use imex_cdi::{
    CHANNEL_DIR, ChannelId, ContainerEdits, Device, DeviceNode, DriverParams, HostNode, HostNodes,
    Major, Permissions, Spec, channel_edits,
};

use crate::stderr::note;

/// The mode that the kubelet plugin gives a channel's node.
const PLUGIN_MODE: u32 = 0o666;

/// What the device nodes of all channels have in common.
pub(super) struct Template {
    /// Of the nodes that the runtime makes. `None`: the nodes are the host's, as they are when a
    /// container starts.
    pub(super) major: Option<Major>,
    pub(super) access: Access,
}

/// Who may use a node. `None` leaves it to the runtime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) file_mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) permissions: Permissions,
}

// === impl Access ===

impl Access {
    /// Completed by the driver's parameters for the nodes on the host: some
    /// distributions reserve them for one group.
    pub(super) fn or_from_driver(self, params: DriverParams) -> Self {
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

    fn apply_to(self, node: &mut DeviceNode) {
        node.file_mode = self.file_mode;
        node.uid = self.uid;
        node.gid = self.gid;
        node.permissions = Some(self.permissions);
    }
}

// === impl Template ===

impl Template {
    pub(super) fn device(&self, channel: ChannelId) -> Device {
        Device {
            name: channel.device_name(),
            annotations: BTreeMap::new(),
            container_edits: self.edits(channel),
        }
    }

    fn edits(&self, channel: ChannelId) -> ContainerEdits {
        let mut edits = match self.major {
            Some(major) => channel_edits(channel, major),
            None => host_edits(channel),
        };
        for node in &mut edits.device_nodes {
            self.access.apply_to(node);
        }
        edits
    }
}

fn host_edits(channel: ChannelId) -> ContainerEdits {
    let path = format!("{CHANNEL_DIR}/channel{channel}");
    let node = DeviceNode {
        host_path: Some(path.clone()),
        path,
        ..DeviceNode::default()
    };
    ContainerEdits {
        device_nodes: vec![node],
        ..ContainerEdits::default()
    }
}

/// Warns of nodes that the host lacks: a container would not start until they are
/// made.
pub(super) fn note_absent(spec: &Spec, host: &Root) {
    let nodes = spec.devices().iter();
    let paths = nodes.flat_map(|device| &device.container_edits.device_nodes);
    let mut absent = paths
        .filter_map(|node| node.host_path.as_deref())
        .filter(|path| !matches!(host.lstat(path), Ok(HostNode::Device(_))));
    if let Some(first) = absent.next() {
        let why = match host.lstat(first) {
            Ok(_) => "is not a device node".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "does not exist on this host".to_owned()
            }
            Err(error) => format!("cannot be examined ({error})"),
        };
        let others = and_more(absent.count());
        note(&format!(
            "{first} {why}{others}: no container with it starts until it is made \
             ({MAKE_CHANNEL}); --mode mknod needs none"
        ));
    }
}
