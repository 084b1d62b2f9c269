//! CRI-O, Docker and podman.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::{Cdi, Runtime, major_minor};
use crate::files::HostFiles;
use crate::packages;

const CRIO_CONFIG: &str = "/etc/crio/crio.conf";
const CRIO_DROP_INS: &str = "/etc/crio/crio.conf.d";
/// The first that takes the devices from where kubelet puts them, the CRI field
/// `CDIDevices`; before, they were in annotations.
const CRIO_WITH_CDI: (u32, u32) = (1, 28);

const DOCKER_CONFIG: &str = "/etc/docker/daemon.json";
/// The first, major and minor, in which CDI is on by default.
const DOCKER_WITH_CDI: (u32, u32) = (28, 2);

const PODMAN_CONFIG: &str = "/etc/containers/containers.conf";

/// CDI is always on in it. Later files override earlier ones.
pub(super) fn cri_o(files: &HostFiles) -> Option<Runtime> {
    let program = files.first(&["/usr/bin/crio", "/usr/local/bin/crio"]);
    let drop_ins = files.names(CRIO_DROP_INS).into_iter();
    let mut configs = vec![CRIO_CONFIG.to_owned()];
    configs.extend(drop_ins.map(|name| format!("{CRIO_DROP_INS}/{name}")));
    configs.retain(|config| files.exists(config));
    if program.is_none() && configs.is_empty() {
        return None;
    }
    let mut runtime = Runtime {
        name: "cri-o",
        version: packages::version(files, &["cri-o"], program),
        cdi: Cdi::On,
        spec_dirs: None,
        config: None,
        fault: None,
        first_with_cdi: Some(CRIO_WITH_CDI),
        turn_on: "",
        for_pods: true,
    };
    for config in configs {
        runtime.take_toml(files, config, &["crio", "runtime"]);
    }
    Some(runtime)
}

pub(super) fn podman(files: &HostFiles) -> Option<Runtime> {
    let program = files.first(&["/usr/bin/podman", "/usr/local/bin/podman"])?;
    let mut runtime = Runtime {
        name: "podman",
        version: packages::version(files, &["podman"], Some(program)),
        cdi: Cdi::On,
        spec_dirs: None,
        config: None,
        fault: None,
        first_with_cdi: None,
        turn_on: "",
        for_pods: false,
    };
    if files.exists(PODMAN_CONFIG) {
        runtime.take_toml(files, PODMAN_CONFIG.to_owned(), &["engine"]);
    }
    Some(runtime)
}

pub(super) fn docker(files: &HostFiles) -> Option<Runtime> {
    let program = files.first(&["/usr/bin/dockerd", "/usr/local/bin/dockerd"])?;
    let version = packages::version(files, &["docker-ce", "docker.io"], Some(program));
    let text = files.text_if_any(DOCKER_CONFIG);
    let config = text.as_deref().map(serde_json::from_str::<Json>);
    let fault = matches!(config, Some(Err(_))).then(|| format!("{DOCKER_CONFIG} is no JSON"));
    let json = config.and_then(Result::ok).unwrap_or_default();
    let switch = json.pointer("/features/cdi").and_then(Json::as_bool);
    let dirs = json.get("cdi-spec-dirs").and_then(Json::as_array);
    let by_default = version.as_deref().and_then(major_minor);
    let by_default = by_default.map(|version| version >= DOCKER_WITH_CDI);
    Some(Runtime {
        name: "docker",
        cdi: match (switch, by_default) {
            (Some(true), _) | (None, Some(true)) => Cdi::On,
            (Some(false), _) | (None, Some(false)) => Cdi::Off,
            (None, None) => Cdi::Unknown,
        },
        version,
        spec_dirs: dirs.map(|dirs| {
            let dirs = dirs.iter().filter_map(Json::as_str);
            dirs.map(str::to_owned).collect()
        }),
        config: text.map(|_| DOCKER_CONFIG.to_owned()),
        fault,
        first_with_cdi: None,
        turn_on: "set \"features\": {\"cdi\": true} in /etc/docker/daemon.json, and restart docker",
        for_pods: false,
    })
}

/// An array of strings.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter().filter_map(Value::as_str);
    Some(items.map(str::to_owned).collect())
}

// === impl Runtime ===

impl Runtime {
    /// The directories that a configuration file names below `section`.
    fn take_toml(&mut self, files: &HostFiles, config: String, section: &[&str]) {
        let text = match files.text(&config) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => {
                self.fault = Some(format!("cannot read {config}: {error}"));
                self.config = Some(config);
                return;
            }
        };
        match text.parse::<Table>() {
            Ok(table) => {
                let mut inner = Some(&table);
                for name in section {
                    inner = inner.and_then(|it| it.get(*name)?.as_table());
                }
                let dirs = inner.and_then(|it| it.get("cdi_spec_dirs").and_then(strings));
                if dirs.is_some() || self.config.is_none() {
                    self.config = Some(config);
                }
                self.spec_dirs = dirs.or_else(|| self.spec_dirs.take());
            }
            Err(error) => {
                self.fault = Some(format!("{config} is no TOML: {}", error.message()));
                self.config = Some(config);
            }
        }
    }
}
