//! Looking through edits and annotations.

use std::collections::{BTreeMap, BTreeSet};

use super::{Lint, Warning};
use crate::spec::Field;
use crate::{CHANNEL_DIR, ChannelId, ContainerEdits, Device, DeviceNode, Hook, Mount, NetDevice};

/// The longest annotations, keys and values together, that Kubernetes has.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The longest name of a network interface (`IFNAMSIZ` less its final zero).
const INTERFACE_LIMIT: usize = 15;

/// Warnings as they are found.
#[derive(Default)]
pub(super) struct Warnings {
    pub(super) found: Vec<Warning>,
}

impl Warnings {
    pub(super) fn add(&mut self, field: Field, lint: Lint) {
        let field = field.to_string();
        self.found.push(Warning { field, lint });
    }

    pub(super) fn annotations(&mut self, field: Field, annotations: &BTreeMap<String, String>) {
        if annotations.keys().any(|key| !is_qualified_name(key)) {
            self.add(field, Lint::AnnotationKey);
        }
        let lengths = annotations
            .iter()
            .map(|(key, value)| key.len() + value.len());
        if lengths.sum::<usize>() > ANNOTATIONS_LIMIT {
            self.add(field, Lint::AnnotationsTooLong);
        }
    }

    pub(super) fn edits(&mut self, device: Option<usize>, edits: &ContainerEdits) {
        let field = |name| Field::of_spec(name).in_edits_of(device);
        self.env(field("env"), &edits.env);
        self.nodes(field("deviceNodes"), &edits.device_nodes);
        self.hooks(field("hooks"), &edits.hooks);
        self.mounts(field("mounts"), &edits.mounts);
        self.net_devices(field("netDevices"), &edits.net_devices);
        self.gids(field("additionalGids"), &edits.additional_gids);
    }

    fn nodes(&mut self, list: Field, nodes: &[DeviceNode]) {
        let mut paths = BTreeSet::new();
        for (at, node) in nodes.iter().enumerate() {
            let field = list.at(at);
            self.path(field.leaf("path"), &node.path);
            self.path(
                field.leaf("hostPath"),
                node.host_path.as_deref().unwrap_or("/"),
            );
            self.numbers(field, node);
            if !paths.insert(node.path.as_str()) {
                self.add(field.leaf("path"), Lint::RepeatedPath);
            }
        }
    }

    fn hooks(&mut self, list: Field, hooks: &[Hook]) {
        for (at, hook) in hooks.iter().enumerate() {
            let field = list.at(at);
            self.path(field.leaf("path"), &hook.path);
            self.nuls(field.leaf("args"), &hook.args);
            self.env(field.leaf("env"), &hook.env);
            if hook.timeout.is_some_and(|seconds| seconds <= 0) {
                self.add(field.leaf("timeout"), Lint::NoTime);
            }
        }
    }

    fn mounts(&mut self, list: Field, mounts: &[Mount]) {
        let mut paths = BTreeSet::new();
        for (at, mount) in mounts.iter().enumerate() {
            let field = list.at(at);
            self.nul(field.leaf("hostPath"), &mount.host_path);
            self.path(field.leaf("containerPath"), &mount.container_path);
            self.nuls(field.leaf("options"), &mount.options);
            let has = |option: &str| mount.options.iter().any(|other| other == option);
            if has("ro") && has("rw") {
                self.add(field.leaf("options"), Lint::ReadOnlyAndWritable);
            }
            if !paths.insert(mount.container_path.as_str()) {
                self.add(field.leaf("containerPath"), Lint::RepeatedPath);
            }
        }
    }

    fn net_devices(&mut self, list: Field, devices: &[NetDevice]) {
        for (at, device) in devices.iter().enumerate() {
            let field = list.at(at);
            for (leaf, name) in [
                ("hostInterfaceName", &device.host_interface_name),
                ("name", &device.name),
            ] {
                if name.len() > INTERFACE_LIMIT {
                    self.add(field.leaf(leaf), Lint::InterfaceTooLong);
                }
            }
        }
    }

    fn gids(&mut self, list: Field, gids: &[u32]) {
        for (at, gid) in gids.iter().enumerate() {
            if *gid == 0 {
                self.add(list.at(at), Lint::GroupPassedOver);
            }
            self.id(list.at(at), Some(*gid));
        }
    }

    /// The kernel takes the highest for none.
    pub(super) fn id(&mut self, field: Field, id: Option<u32>) {
        if id == Some(u32::MAX) {
            self.add(field, Lint::OutOfRange);
        }
    }

    fn path(&mut self, field: Field, path: &str) {
        if !path.starts_with('/') && !path.is_empty() {
            self.add(field, Lint::RelativePath);
        }
        self.nul(field, path);
    }

    fn nul(&mut self, field: Field, text: &str) {
        if text.contains('\0') {
            self.add(field, Lint::Nul);
        }
    }

    fn nuls(&mut self, field: Field, texts: &[String]) {
        for (at, text) in texts.iter().enumerate() {
            self.nul(field.at(at), text);
        }
    }

    fn env(&mut self, field: Field, env: &[String]) {
        let mut names = BTreeSet::new();
        for (at, variable) in env.iter().enumerate() {
            let name = variable.split('=').next().unwrap_or_default();
            if !names.insert(name) {
                self.add(field.at(at), Lint::RepeatedVariable);
            }
            self.nul(field.at(at), variable);
        }
    }
}

/// The channel that `device` stands for: the one whose node it has, and where
/// in its list; none for a device of several, such as an `all`.
pub(super) fn only_channel(device: &Device) -> Option<(usize, ChannelId)> {
    let nodes = device.container_edits.device_nodes.iter().enumerate();
    let mut channels = nodes.filter_map(|(at, node)| Some((at, channel_of(node)?)));
    let channel = channels.next()?;
    channels.next().is_none().then_some(channel)
}

/// The channel whose path `node` has.
pub(super) fn channel_of(node: &DeviceNode) -> Option<ChannelId> {
    let name = node.path.strip_prefix(CHANNEL_DIR)?.strip_prefix('/')?;
    let id = name.strip_prefix("channel")?.parse().ok()?;
    ChannelId::new(id).ok()
}

/// A key as Kubernetes has it: `[prefix/]name` in any case, the prefix a DNS
/// name of at most 253 bytes, the name at most 63 letters, digits, `-`, `_` and
/// `.`, a letter or digit first and last.
fn is_qualified_name(key: &str) -> bool {
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let of = |text: &str, more: &[char]| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
    };
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let label = |label: &str| ends(label) && of(label, &['-']);
    prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(label))
        && name.len() <= 63
        && ends(name)
        && of(name, &['-', '_', '.'])
}
