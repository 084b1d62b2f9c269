//! CRI-O, Docker and podman.

use serde_json::Value as Json;

use super::model::{CdiSupport, ContainerdFacts, Runtime, RuntimeKind, major_minor};
use super::toml_file::{self, strings};
use crate::files::HostFiles;
use crate::packages;

const CRIO_CONFIG: &str = "/etc/crio/crio.conf";
const CRIO_DROP_INS: &str = "/etc/crio/crio.conf.d";

const DOCKER_CONFIG: &str = "/etc/docker/daemon.json";
/// The first, major and minor, in which CDI is on by default.
const DOCKER_WITH_CDI: (u32, u32) = (28, 2);

const PODMAN_CONFIG: &str = "/etc/containers/containers.conf";

/// CDI is always on in CRI-O. Later files override earlier ones.
pub(super) fn cri_o(files: &HostFiles) -> Option<Runtime> {
    let program = files.first_existing(&["/usr/bin/crio", "/usr/local/bin/crio"]);
    let drop_ins = files.list(CRIO_DROP_INS).into_iter();
    let mut configs = vec![CRIO_CONFIG.to_owned()];
    configs.extend(drop_ins.map(|name| format!("{CRIO_DROP_INS}/{name}")));
    configs.retain(|config| files.exists(config));
    if program.is_none() && configs.is_empty() {
        return None;
    }
    let mut runtime = Runtime {
        kind: RuntimeKind::CriO,
        version: packages::version(files, &["cri-o"], program),
        cdi: CdiSupport::On,
        spec_dirs: None,
        config: None,
        config_error: None,
        runs_pods: true,
        containerd: ContainerdFacts::default(),
    };
    for config in configs {
        merge_toml(&mut runtime, files, config, &["crio", "runtime"]);
    }
    Some(runtime)
}

/// CDI is always on in podman. It runs no pods of kubelet.
pub(super) fn podman(files: &HostFiles) -> Option<Runtime> {
    let program = files.first_existing(&["/usr/bin/podman", "/usr/local/bin/podman"])?;
    let mut runtime = Runtime {
        kind: RuntimeKind::Podman,
        version: packages::version(files, &["podman"], Some(program)),
        cdi: CdiSupport::On,
        spec_dirs: None,
        config: None,
        config_error: None,
        runs_pods: false,
        containerd: ContainerdFacts::default(),
    };
    if files.exists(PODMAN_CONFIG) {
        merge_toml(&mut runtime, files, PODMAN_CONFIG.to_owned(), &["engine"]);
    }
    Some(runtime)
}

/// CDI is a feature that newer versions have on by default. Docker runs no pods of
/// kubelet.
pub(super) fn docker(files: &HostFiles) -> Option<Runtime> {
    let program = files.first_existing(&["/usr/bin/dockerd", "/usr/local/bin/dockerd"])?;
    let version = packages::version(files, &["docker-ce", "docker.io"], Some(program));
    let text = files.text_if_readable(DOCKER_CONFIG);
    let config = text.as_deref().map(serde_json::from_str::<Json>);
    let config_error =
        matches!(config, Some(Err(_))).then(|| format!("{DOCKER_CONFIG} is not JSON"));
    let json = config.and_then(Result::ok).unwrap_or_default();
    let switch = json.pointer("/features/cdi").and_then(Json::as_bool);
    let dirs = json.get("cdi-spec-dirs").and_then(Json::as_array);
    let by_default = version.as_deref().and_then(major_minor);
    let by_default = by_default.map(|version| version >= DOCKER_WITH_CDI);
    Some(Runtime {
        kind: RuntimeKind::Docker,
        cdi: match (switch, by_default) {
            (Some(true), _) | (None, Some(true)) => CdiSupport::On,
            (Some(false), _) | (None, Some(false)) => CdiSupport::Off,
            (None, None) => CdiSupport::Unknown,
        },
        version,
        spec_dirs: dirs.map(|dirs| {
            let dirs = dirs.iter().filter_map(Json::as_str);
            dirs.map(str::to_owned).collect()
        }),
        config: text.map(|_| DOCKER_CONFIG.to_owned()),
        config_error,
        runs_pods: false,
        containerd: ContainerdFacts::default(),
    })
}

/// Adds the directories that a configuration file names below `section`.
fn merge_toml(runtime: &mut Runtime, files: &HostFiles, config: String, section: &[&str]) {
    let table = match toml_file::read(files, &config) {
        Ok(table) => table.unwrap_or_default(),
        Err(error) => {
            runtime.config_error = Some(error);
            runtime.config = Some(config);
            return;
        }
    };
    let mut inner = Some(&table);
    for name in section {
        inner = inner.and_then(|it| it.get(*name)?.as_table());
    }
    let dirs = inner.and_then(|it| it.get("cdi_spec_dirs").and_then(strings));
    if dirs.is_some() || runtime.config.is_none() {
        runtime.config = Some(config);
    }
    runtime.spec_dirs = dirs.or_else(|| runtime.spec_dirs.take());
}
