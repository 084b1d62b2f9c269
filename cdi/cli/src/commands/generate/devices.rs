//! The devices of the spec.

use std::collections::BTreeMap;
use std::io;

use host_doctor::{Host, MAKE_CHANNEL, and_more};
use imex_cdi::{
    CHANNEL_DIR, ChannelId, ContainerEdits, Device, DeviceNode, DriverParams, HostNode, HostNodes,
    Major, Spec, channel_node,
};

use crate::args::Generate;
use crate::terminal::note;

/// The mode that the kubelet plugin gives a channel's node.
const PLUGIN_MODE: u32 = 0o666;

/// Returns one device per channel. With `major`, the runtime creates the nodes; without it, the
/// container gets the host's nodes as they are when it starts.
pub(super) fn of_channels(
    channels: Vec<ChannelId>,
    major: Option<Major>,
    args: &Generate,
    params: DriverParams,
) -> Vec<Device> {
    let devices = channels.into_iter().map(|channel| {
        let mut node = match major {
            Some(major) => channel_node(channel, major),
            None => host_node(channel),
        };
        set_access(&mut node, args, params);
        Device {
            name: channel.device_name(),
            annotations: BTreeMap::new(),
            container_edits: ContainerEdits {
                device_nodes: vec![node],
                ..ContainerEdits::default()
            },
        }
    });
    devices.collect()
}

/// Sets permissions, mode and owner of the node. Omitted values are left to the runtime for a host
/// node. For a created node, they come from the driver's parameters, because some distributions
/// reserve the nodes for one group.
fn set_access(node: &mut DeviceNode, args: &Generate, params: DriverParams) {
    node.permissions = Some(args.permissions);
    (node.file_mode, node.uid, node.gid) = (args.file_mode, args.uid, args.gid);
    if node.host_path.is_none() {
        let mode = params.device_file_mode.unwrap_or(PLUGIN_MODE);
        node.file_mode = args.file_mode.or(Some(mode));
        node.uid = args.uid.or(params.device_file_uid);
        node.gid = args.gid.or(params.device_file_gid);
    }
}

fn host_node(channel: ChannelId) -> DeviceNode {
    let path = format!("{CHANNEL_DIR}/channel{channel}");
    DeviceNode {
        host_path: Some(path.clone()),
        path,
        ..DeviceNode::default()
    }
}

/// Warns about missing host nodes: containers cannot start until they exist.
pub(super) fn warn_missing_nodes(spec: &Spec, host: &Host) {
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
            "{first} {why}{others}: containers that use this device node cannot start until you create it \
             ({MAKE_CHANNEL}); --mode mknod needs no device node on the host"
        ));
    }
}
