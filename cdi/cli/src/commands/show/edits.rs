//! The rows of a table of edits.

use imex_cdi::{ContainerEdits, DeviceNode, Hook, IntelRdt, Mount};

use host_doctor::{HostPaths, NodeReport, PathState};

/// The state of the host paths in edits, in their order; `None` where no host path is needed.
#[derive(Debug)]
pub(super) struct Paths {
    mounts: Vec<Option<PathState>>,
    hooks: Vec<Option<PathState>>,
}

// === impl Paths ===

impl Paths {
    pub(super) fn new(edits: &ContainerEdits, host: &mut HostPaths<'_>) -> Self {
        let mounts = edits.mounts.iter().map(|mount| host.mount(mount));
        let mounts = mounts.collect();
        let hooks = edits.hooks.iter().map(|hook| host.hook(hook)).collect();
        Self { mounts, hooks }
    }
}

fn host_side(state: Option<PathState>) -> String {
    state.map_or("", PathState::as_str).to_owned()
}

/// Rows of field, edit and host state. `nodes` are the reports on the device nodes of `edits`, in
/// their order.
pub(super) fn rows(
    owner: &str,
    edits: &ContainerEdits,
    nodes: &[NodeReport],
    paths: &Paths,
) -> Vec<[String; 3]> {
    let ContainerEdits {
        env,
        device_nodes,
        net_devices,
        hooks,
        mounts,
        intel_rdt,
        additional_gids,
    } = edits;
    let mut rows = Vec::new();
    let mut add = |field: String, edit: String, host: String| {
        rows.push([format!("{owner}.{field}"), edit, host]);
    };
    for (at, (node, report)) in device_nodes.iter().zip(nodes).enumerate() {
        add(
            format!("deviceNodes[{at}]"),
            device_node(node, report),
            report.host_side(),
        );
    }
    let mut plain = |field: String, edit: String| add(field, edit, String::new());
    for (at, variable) in env.iter().enumerate() {
        plain(format!("env[{at}]"), variable.clone());
    }
    for (at, device) in net_devices.iter().enumerate() {
        plain(
            format!("netDevices[{at}]"),
            format!("{} as {}", device.host_interface_name, device.name),
        );
    }
    for (at, (it, state)) in mounts.iter().zip(&paths.mounts).enumerate() {
        add(format!("mounts[{at}]"), mount(it), host_side(*state));
    }
    for (at, (it, state)) in hooks.iter().zip(&paths.hooks).enumerate() {
        add(format!("hooks[{at}]"), hook(it), host_side(*state));
    }
    let mut plain = |field: String, edit: String| add(field, edit, String::new());
    if let Some(rdt) = intel_rdt {
        plain("intelRdt".to_owned(), class_of_service(rdt));
    }
    for (at, gid) in additional_gids.iter().enumerate() {
        plain(format!("additionalGids[{at}]"), format!("group {gid}"));
    }
    rows
}

fn device_node(node: &DeviceNode, report: &NodeReport) -> String {
    let DeviceNode {
        path,
        host_path: _,
        device_type: _,
        major: _,
        minor: _,
        file_mode,
        permissions,
        uid,
        gid,
    } = node;
    let mut parts = vec![path.clone()];
    parts.extend(report.declared.clone());
    if report.host_path != report.path {
        parts.push(format!("from {}", report.host_path));
    }
    parts.extend(file_mode.map(|mode| format!("mode {mode:04o}")));
    parts.extend(permissions.map(|allowed| format!("allow {}", String::from(allowed))));
    parts.extend(uid.map(|uid| format!("user {uid}")));
    parts.extend(gid.map(|gid| format!("group {gid}")));
    parts.join(" ")
}

fn mount(mount: &Mount) -> String {
    let Mount {
        host_path,
        container_path,
        options,
        fs_type,
    } = mount;
    let mut parts = vec![format!("{host_path} at {container_path}")];
    parts.extend(fs_type.as_ref().map(|name| format!("type {name}")));
    if !options.is_empty() {
        parts.push(format!("({})", options.join(",")));
    }
    parts.join(" ")
}

fn hook(hook: &Hook) -> String {
    let Hook {
        hook_name,
        path,
        args,
        env,
        timeout,
    } = hook;
    let mut parts = vec![format!("{hook_name}: {path}")];
    // The first is the program's own name.
    parts.extend(args.iter().skip(1).cloned());
    parts.extend(env.iter().map(|variable| format!("with {variable}")));
    parts.extend(timeout.map(|seconds| format!("within {seconds} s")));
    parts.join(" ")
}

fn class_of_service(rdt: &IntelRdt) -> String {
    let IntelRdt {
        clos_id,
        l3_cache_schema,
        mem_bw_schema,
        schemata,
        enable_monitoring,
    } = rdt;
    let mut parts = Vec::new();
    for (name, text) in [
        ("class", clos_id),
        ("l3", l3_cache_schema),
        ("bandwidth", mem_bw_schema),
    ] {
        if !text.is_empty() {
            parts.push(format!("{name} {text}"));
        }
    }
    let schemata = schemata.iter().flatten();
    parts.extend(schemata.map(|line| format!("schema {line}")));
    if *enable_monitoring {
        parts.push("monitored".to_owned());
    }
    parts.join(" ")
}
