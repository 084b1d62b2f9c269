//! The checks of Go's CDI library on edits.

use std::collections::BTreeSet;

use super::{EditFault, Field};
use crate::{ContainerEdits, Hook, NetDevice, Permissions};

// === impl ContainerEdits ===

impl ContainerEdits {
    /// Every field that Go's CDI library refuses (`Validate` in its
    /// `pkg/cdi/container-edits.go`), in the library's order. Its checks of node types
    /// and permissions are left to the types here.
    pub(crate) fn each_fault(&self, found: &mut impl FnMut(Field, EditFault)) {
        check_env(Field::in_spec("env"), &self.env, found);
        for (field, node) in Field::in_spec("deviceNodes").entries(&self.device_nodes) {
            check_path(field.leaf("path"), &node.path, found);
            if node.permissions.is_some_and(Permissions::is_none) {
                found(field.leaf("permissions"), EditFault::NoPermissions);
            }
        }
        for (field, hook) in Field::in_spec("hooks").entries(&self.hooks) {
            if !Hook::NAMES.contains(&hook.hook_name.as_str()) {
                found(field.leaf("hookName"), EditFault::UnknownHook);
            }
            check_path(field.leaf("path"), &hook.path, found);
            check_env(field.leaf("env"), &hook.env, found);
        }
        for (field, mount) in Field::in_spec("mounts").entries(&self.mounts) {
            check_path(field.leaf("hostPath"), &mount.host_path, found);
            check_path(field.leaf("containerPath"), &mount.container_path, found);
        }
        if let Some(rdt) = &self.intel_rdt
            && !is_class_of_service(&rdt.clos_id)
        {
            let field = Field::in_spec("intelRdt").leaf("closID");
            found(field, EditFault::NotAFileName);
        }
        check_net_devices(&self.net_devices, found);
    }
}

fn check_env(field: Field, env: &[String], found: &mut impl FnMut(Field, EditFault)) {
    for (field, variable) in field.entries(env) {
        if variable.find('=').is_none_or(|name_len| name_len == 0) {
            found(field, EditFault::NotAnAssignment);
        }
    }
}

fn check_path(field: Field, path: &str, found: &mut impl FnMut(Field, EditFault)) {
    if path.is_empty() {
        found(field, EditFault::EmptyPath);
    }
}

fn check_net_devices(devices: &[NetDevice], found: &mut impl FnMut(Field, EditFault)) {
    let mut on_host = BTreeSet::new();
    let mut in_container = BTreeSet::new();
    for (field, device) in Field::in_spec("netDevices").entries(devices) {
        for (leaf, name, seen) in [
            (
                "hostInterfaceName",
                &device.host_interface_name,
                &mut on_host,
            ),
            ("name", &device.name, &mut in_container),
        ] {
            if name.is_empty() {
                found(field.leaf(leaf), EditFault::EmptyName);
            } else if !seen.insert(name) {
                found(field.leaf(leaf), EditFault::RepeatedName);
            }
        }
    }
}

/// The name of a directory below resctrl's root, `/` for the root itself, or empty
/// for no class.
fn is_class_of_service(id: &str) -> bool {
    id == "/" || (id.len() < 4096 && id != "." && id != ".." && !id.contains(['/', '\n']))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault(edits: Value) -> Option<(String, EditFault)> {
        let edits: ContainerEdits = serde_json::from_value(edits).unwrap();
        let mut faults = Vec::new();
        edits.each_fault(&mut |field, fault| faults.push((field.to_string(), fault)));
        faults.into_iter().next()
    }

    #[test]
    fn every_field_that_the_cdi_library_refuses_is_refused_by_its_path() {
        use EditFault::{EmptyPath, NotAnAssignment, UnknownHook};
        let hook = |name: &str, path: &str, env: &str| json!({"hooks": [{"hookName": name, "path": path, "env": [env]}]});
        let mount = |host: &str, container: &str| {
            json!({"mounts": [
                {"hostPath": "/a", "containerPath": "/b"},
                {"hostPath": host, "containerPath": container},
            ]})
        };
        let cases = [
            (json!({"env": ["A=b", "A"]}), "env[1]", NotAnAssignment),
            (json!({"env": ["=b"]}), "env[0]", NotAnAssignment),
            (json!({"env": [""]}), "env[0]", NotAnAssignment),
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
            (
                hook("prestart", "/h", "A"),
                "hooks[0].env[0]",
                NotAnAssignment,
            ),
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
    fn network_devices_have_names_of_their_own() {
        use EditFault::{EmptyName, RepeatedName};
        let net = |devices: [(&str, &str); 2]| {
            let devices = devices.map(|(h, n)| json!({"hostInterfaceName": h, "name": n}));
            fault(json!({"netDevices": devices}))
        };
        let at = |leaf: &str, fault| Some((format!("netDevices[1].{leaf}"), fault));
        assert_eq!(net([("a", "b"), ("b", "a")]), None);
        assert_eq!(
            net([("a", "b"), ("", "c")]),
            at("hostInterfaceName", EmptyName)
        );
        assert_eq!(net([("a", "b"), ("c", "")]), at("name", EmptyName));
        assert_eq!(
            net([("a", "b"), ("a", "c")]),
            at("hostInterfaceName", RepeatedName)
        );
        assert_eq!(net([("a", "b"), ("c", "b")]), at("name", RepeatedName));
    }

    #[test]
    fn a_class_of_service_is_a_directorys_name_or_the_root() {
        let of = |id: &str| fault(json!({"intelRdt": {"closID": id}}));
        let (most, more) = ("x".repeat(4095), "x".repeat(4096));
        for id in ["", "/", "a", "...", " ", most.as_str()] {
            assert_eq!(of(id), None, "{id:?}");
        }
        for id in [".", "..", "a/b", "/a", "a\nb", more.as_str()] {
            let fault = Some(("intelRdt.closID".to_owned(), EditFault::NotAFileName));
            assert_eq!(of(id), fault, "{id:?}");
        }
    }

    #[test]
    fn permissions_that_allow_nothing_are_refused_and_empty_ones_are_absent() {
        let edits = json!({"deviceNodes": [{"path": "/x", "permissions": ""}]});
        let mut edits: ContainerEdits = serde_json::from_value(edits).unwrap();
        assert_eq!(edits.device_nodes[0].permissions, None);
        edits.device_nodes[0].permissions = Some(Permissions {
            read: false,
            write: false,
            mknod: false,
        });
        let mut faults = Vec::new();
        edits.each_fault(&mut |field, fault| faults.push((field.to_string(), fault)));
        let field = "deviceNodes[0].permissions".to_owned();
        assert_eq!(faults, [(field, EditFault::NoPermissions)]);
    }

    #[test]
    fn fields_that_the_cdi_library_accepts_are_accepted() {
        let hooks: Vec<_> = Hook::NAMES
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
