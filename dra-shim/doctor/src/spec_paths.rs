//! The files of a host that a spec mounts into containers, and the programs that it runs as
//! hooks. Without one of them, containers cannot be created.

use std::collections::BTreeMap;
use std::ptr;

use imex_cdi::{ContainerEdits, Device, Hook, Mount, QualifiedName, Registry, Spec, SpecFile};
use serde::Serialize;

use crate::host::Host;
use crate::spec_node::{KUBELET_PLUGINS, REWRITE_CLAIM_SPEC, is_claim_spec};

/// The spec that `nvidia-cdi-refresh` of NVIDIA's container toolkit writes (from 1.18 on).
const REFRESHED: [&str; 2] = ["/run/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"];

/// The limit of paths that are looked up: a device has some dozens.
const MAX_PATHS: usize = 4096;

/// The roots of a driver in a container. While one is empty, the driver is not running, or the
/// mount is not visible from here.
const DRIVER_ROOTS: [&str; 2] = ["/run/nvidia/driver", "/var/run/nvidia/driver"];

/// A path that a spec needs and that does not exist on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingPath {
    /// The path on the host.
    pub path: String,
    /// Whether it is a hook's program instead of a mount's source.
    pub is_hook: bool,
}

/// Whether the host has a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// The path exists.
    Exists,
    /// The path does not exist.
    Missing,
    /// It cannot be examined from here.
    Unknown,
}

/// Looks up the paths of specs, each once.
#[derive(Debug)]
pub struct HostPaths<'a> {
    host: &'a Host,
    known: BTreeMap<String, PathState>,
}

/// The fix for a spec with missing paths. It depends on the spec's writer.
pub fn rewrite_fix(spec: &Spec, file: &str, missing: &[MissingPath]) -> String {
    match spec.kind().vendor() {
        _ if is_claim_spec(spec) => REWRITE_CLAIM_SPEC.to_owned(),
        vendor if vendor.starts_with(KUBELET_PLUGINS) => {
            "restart the kubelet plugin that writes this spec, and delete the pods that use the plugin's claims"
                .to_owned()
        }
        "management.nvidia.com" => format!(
            "restart the GPU operator's toolkit pod on this node, which writes this spec; \
             without the operator, remove {file}"
        ),
        "nvidia.com" if REFRESHED.contains(&file) => format!(
            "rewrite the spec: systemctl restart nvidia-cdi-refresh, or nvidia-ctk cdi generate --output={file}"
        ),
        // Both programs write this kind.
        "nvidia.com" if spec.kind().class() == "gpu" => {
            let install = if missing.iter().all(|it| it.is_hook) {
                "install the hook program, or "
            } else {
                ""
            };
            format!(
                "{install}rewrite the spec with the program that wrote it: cdi-gen generate gpu --output {file} \
                 (on the host), or nvidia-ctk cdi generate --output={file}"
            )
        }
        _ => format!("let the program that writes this spec rewrite it, or remove {file}"),
    }
}

/// Whether a container that requests the device gets it from `file` instead of another file;
/// `None` if it gets neither.
pub(crate) fn resolves_to_file(
    registry: &Registry,
    file: &SpecFile,
    spec: &Spec,
    device: &Device,
) -> Option<bool> {
    let name = QualifiedName::new(spec.kind().clone(), device.name.clone());
    let found = registry.resolve(&name).ok()?;
    Some(ptr::eq(found.file, file))
}

// === impl MissingPath ===

impl MissingPath {
    /// The problem, for people.
    pub fn message(&self) -> String {
        let needs = if self.is_hook { "runs" } else { "mounts" };
        format!(
            "the spec {needs} {}, which does not exist on the host",
            self.path
        )
    }
}

// === impl PathState ===

impl PathState {
    /// The word for a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

// === impl HostPaths ===

impl<'a> HostPaths<'a> {
    /// Starts without any path looked up.
    pub fn new(host: &'a Host) -> Self {
        Self {
            host,
            known: BTreeMap::new(),
        }
    }

    /// Looks up the mount's source; `None` if the mount has none on the host.
    pub fn mount(&mut self, mount: &Mount) -> Option<PathState> {
        let mut options = mount.options.iter();
        let is_bind = mount.fs_type.as_deref() == Some("bind")
            || options.any(|option| option == "bind" || option == "rbind");
        is_bind.then(|| self.state(&mount.host_path))
    }

    /// Looks up the hook's program; `None` if it is the container's.
    pub fn hook(&mut self, hook: &Hook) -> Option<PathState> {
        (hook.hook_name != "startContainer").then(|| self.state(&hook.path))
    }

    /// The missing paths that `edits` need, each once.
    pub fn missing(&mut self, edits: &ContainerEdits) -> Vec<MissingPath> {
        let mut found = Vec::new();
        for mount in &edits.mounts {
            if self.mount(mount) == Some(PathState::Missing) {
                add(&mut found, &mount.host_path, false);
            }
        }
        for hook in &edits.hooks {
            if self.hook(hook) == Some(PathState::Missing) {
                add(&mut found, &hook.path, true);
            }
        }
        found
    }

    /// The missing paths of the devices that containers get from the file, sorted by path. Empty
    /// if all its devices resolve to other files.
    pub fn missing_in(&mut self, registry: &Registry, file: &SpecFile) -> Vec<MissingPath> {
        let Ok(spec) = &file.spec else {
            return vec![];
        };
        let is_given =
            |device: &&Device| resolves_to_file(registry, file, spec, device) == Some(true);
        // Most devices have neither mounts nor hooks: then they need not be resolved.
        let needs_paths =
            |edits: &&ContainerEdits| !(edits.mounts.is_empty() && edits.hooks.is_empty());
        let devices = || spec.devices().iter();
        let shared = Some(spec.container_edits()).filter(needs_paths);
        let shared = shared.filter(|_| devices().any(|device| is_given(&device)));
        let own =
            devices().filter(|device| needs_paths(&&device.container_edits) && is_given(device));
        let all = shared
            .into_iter()
            .chain(own.map(|device| &device.container_edits));
        let mut found = BTreeMap::new();
        for missing in all.flat_map(|edits| self.missing(edits)) {
            found.entry(missing.path.clone()).or_insert(missing);
        }
        found.into_values().collect()
    }

    fn state(&mut self, path: &str) -> PathState {
        if let Some(state) = self.known.get(path) {
            return *state;
        }
        if self.known.len() >= MAX_PATHS || !path.starts_with('/') {
            return PathState::Unknown;
        }
        let state = match self.host.try_exists(path) {
            Ok(true) => PathState::Exists,
            Ok(false) if !self.is_in_hidden_driver(path) => PathState::Missing,
            Ok(false) | Err(_) => PathState::Unknown,
        };
        self.known.insert(path.to_owned(), state);
        state
    }

    fn is_in_hidden_driver(&self, path: &str) -> bool {
        let roots = DRIVER_ROOTS.iter();
        let mut roots = roots.filter(|root| path.starts_with(&format!("{root}/")));
        roots.any(|root| self.host.list(root).is_empty())
    }
}

fn add(found: &mut Vec<MissingPath>, path: &str, is_hook: bool) {
    if found.iter().all(|it| it.path != path) {
        let path = path.to_owned();
        found.push(MissingPath { path, is_hook });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_is_rewritten_by_a_program_that_writes_its_kind() {
        let fix = |kind: &str, is_hook| {
            let device = json!({"name": "d", "containerEdits": {"env": ["A=b"]}});
            let spec = json!({"cdiVersion": "0.5.0", "kind": kind, "devices": [device]});
            let spec = Spec::parse(spec.to_string().as_bytes()).unwrap();
            let path = "/p".to_owned();
            rewrite_fix(&spec, "/etc/cdi/f.json", &[MissingPath { path, is_hook }])
        };
        let either = "rewrite the spec with the program that wrote it: cdi-gen generate gpu --output /etc/cdi/f.json \
                      (on the host), or nvidia-ctk cdi generate --output=/etc/cdi/f.json";
        assert_eq!(fix("nvidia.com/gpu", false), either);
        assert_eq!(
            fix("nvidia.com/gpu", true),
            format!("install the hook program, or {either}")
        );
        let other = "let the program that writes this spec rewrite it, or remove /etc/cdi/f.json";
        assert_eq!(fix("nvidia.com/imex-channel", false), other);
    }

    fn edits(mounts: &[(&str, &str)], hooks: &[(&str, &str)]) -> ContainerEdits {
        let mounts = mounts.iter().map(|(path, option)| {
            json!({"hostPath": path, "containerPath": "/c", "options": ["ro", option]})
        });
        let hooks = hooks
            .iter()
            .map(|(name, path)| json!({"hookName": name, "path": path}));
        let edits = json!({
            "mounts": mounts.collect::<Vec<_>>(),
            "hooks": hooks.collect::<Vec<_>>(),
        });
        serde_json::from_value(edits).unwrap()
    }

    fn missing(root: &std::path::Path, edits: &ContainerEdits) -> Vec<String> {
        let host = Host::open(root).unwrap();
        let found = HostPaths::new(&host).missing(edits);
        found.iter().map(|it| it.path.clone()).collect()
    }

    #[test]
    fn only_paths_that_a_container_needs_from_the_host_are_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib")).unwrap();
        fs::write(dir.path().join("usr/lib/libcuda.so.570.1"), "").unwrap();
        symlink("/usr/lib", dir.path().join("lib")).unwrap();
        let edits = edits(
            &[
                ("/lib/libcuda.so.570.1", "rbind"),
                ("/usr/lib/libcuda.so.1", "bind"),
                ("/usr/lib/libcuda.so.1", "rbind"),
                ("tmpfs", "nosuid"),
                ("/no/mount", "nosuid"),
            ],
            &[
                ("createContainer", "/usr/bin/nvidia-cdi-hook"),
                ("startContainer", "/bin/of-the-container"),
            ],
        );
        let found = missing(dir.path(), &edits);
        assert_eq!(found, ["/usr/lib/libcuda.so.1", "/usr/bin/nvidia-cdi-hook"]);
    }

    #[test]
    fn paths_in_a_driver_container_are_not_missing_while_its_root_is_not_visible() {
        let dir = tempfile::tempdir().unwrap();
        let path = "/run/nvidia/driver/usr/lib64/libcuda.so.570.1";
        let edits = edits(&[(path, "rbind")], &[]);
        assert_eq!(missing(dir.path(), &edits), [""; 0]);
        fs::create_dir_all(dir.path().join("run/nvidia/driver")).unwrap();
        assert_eq!(missing(dir.path(), &edits), [""; 0]);
        fs::create_dir_all(dir.path().join("run/nvidia/driver/usr/lib64")).unwrap();
        assert_eq!(missing(dir.path(), &edits), [path]);
    }
}
