//! Paths, variables, hooks, mounts, interfaces and groups.

use std::collections::BTreeSet;

use super::found::Warnings;
use super::warning::Lint;
use crate::spec::Field;
use crate::{ContainerEdits, DeviceNode, Hook, Mount, NetDevice};

/// The longest name of a network interface (`IFNAMSIZ` less its final zero).
const INTERFACE_LIMIT: usize = 15;

impl Warnings<'_> {
    pub(super) fn edits(&mut self, device: Option<usize>, edits: &ContainerEdits) {
        let field = |name| Field::in_spec(name).in_edits_of(device);
        self.env(field("env"), &edits.env);
        self.nodes(field("deviceNodes"), &edits.device_nodes);
        self.hooks(field("hooks"), &edits.hooks);
        self.mounts(field("mounts"), &edits.mounts);
        self.net_devices(field("netDevices"), &edits.net_devices);
        self.gids(field("additionalGids"), &edits.additional_gids);
    }

    fn nodes(&mut self, list: Field, nodes: &[DeviceNode]) {
        let mut paths = BTreeSet::new();
        for (field, node) in list.entries(nodes) {
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
        for (field, hook) in list.entries(hooks) {
            self.path(field.leaf("path"), &hook.path);
            self.nuls(field.leaf("args"), &hook.args);
            self.env(field.leaf("env"), &hook.env);
            if hook.timeout.is_some_and(|seconds| seconds <= 0) {
                self.add(field.leaf("timeout"), Lint::TimeoutNotPositive);
            }
        }
    }

    fn mounts(&mut self, list: Field, mounts: &[Mount]) {
        let mut paths = BTreeSet::new();
        for (field, mount) in list.entries(mounts) {
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
        for (field, device) in list.entries(devices) {
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
        for (field, gid) in list.entries(gids) {
            if *gid == 0 {
                self.add(field, Lint::RootGroup);
            }
            self.id(field, Some(*gid));
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
            self.add(field, Lint::NulByte);
        }
    }

    fn nuls(&mut self, field: Field, texts: &[String]) {
        for (field, text) in field.entries(texts) {
            self.nul(field, text);
        }
    }

    fn env(&mut self, field: Field, env: &[String]) {
        let mut names = BTreeSet::new();
        for (field, variable) in field.entries(env) {
            let name = variable.split('=').next().unwrap_or_default();
            if !names.insert(name) {
                self.add(field, Lint::RepeatedVariable);
            }
            self.nul(field, variable);
        }
    }
}
