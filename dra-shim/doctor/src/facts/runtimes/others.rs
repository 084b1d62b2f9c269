//! CRI-O and podman.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::handlers::Configured;
use super::model::{CdiSupport, ContainerdFacts, Runtime, RuntimeKind};
use super::options;
use super::running;
use super::toml_file::{self, strings};
use crate::files::HostFiles;
use crate::packages;

const CRIO_CONFIG: &str = "/etc/crio/crio.conf";
const CRIO_DROP_INS: &str = "/etc/crio/crio.conf.d";

/// What CRI-O itself defines, or may: runc before 1.31, crun since.
const CRIO_OWN: [&str; 2] = ["runc", "crun"];
/// Options, and variables for them, with which it reads other files or has other handlers.
const CRIO_ELSEWHERE: &[&str] = &["--config", "-c", "-d", "--runtimes", "CONTAINER_"];

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
        version: packages::version(files, &["cri-o"], program),
        runs_pods: true,
        ..with_cdi(RuntimeKind::CriO)
    };
    let mut handlers = CriOHandlers::default();
    for config in configs {
        let table = merge_toml(&mut runtime, files, &config, &["crio", "runtime"]);
        handlers.merge(&table, &config);
    }
    let running = running::find(files, "crio").into_iter().next();
    let path = running.and_then(|it| it.path);
    let is_elsewhere = || options::may_have(files, "crio", "crio", CRIO_ELSEWHERE);
    let is_sure = |it: &Configured| match it {
        Configured::Program { .. } => true,
        Configured::Undefined { .. } => runtime.config_error.is_none() && !is_elsewhere(),
    };
    let handler = handlers.default_handler().filter(is_sure);
    runtime.default_handler = handler.map(|it| it.look_up(files, path.as_deref()));
    Some(runtime)
}

/// CDI is always on in podman. It runs no pods of kubelet.
pub(super) fn podman(files: &HostFiles) -> Option<Runtime> {
    let program = files.first_existing(&["/usr/bin/podman", "/usr/local/bin/podman"])?;
    let mut runtime = Runtime {
        version: packages::version(files, &["podman"], Some(program)),
        ..with_cdi(RuntimeKind::Podman)
    };
    if files.exists(PODMAN_CONFIG) {
        merge_toml(&mut runtime, files, PODMAN_CONFIG, &["engine"]);
        // One that this process may not read can be right.
        let is_read = || files.read_text(PODMAN_CONFIG).is_ok();
        runtime.cannot_start = runtime.config_error.is_some() && is_read();
    }
    Some(runtime)
}

/// Not configured yet.
fn with_cdi(kind: RuntimeKind) -> Runtime {
    Runtime {
        kind,
        version: None,
        cdi: CdiSupport::On,
        spec_dirs: None,
        config: None,
        config_error: None,
        cannot_start: false,
        runs_pods: false,
        default_handler: None,
        containerd: ContainerdFacts::default(),
    }
}

/// Adds the directories that a configuration file names below `section`, and returns that;
/// nothing of a file that cannot be read.
fn merge_toml(runtime: &mut Runtime, files: &HostFiles, config: &str, section: &[&str]) -> Table {
    let table = match toml_file::read(files, config) {
        Ok(table) => table.unwrap_or_default(),
        Err(error) => {
            runtime.config_error = Some(error);
            runtime.config = Some(config.to_owned());
            return Table::new();
        }
    };
    let mut inner = Some(&table);
    for name in section {
        inner = inner.and_then(|it| it.get(*name)?.as_table());
    }
    let dirs = inner.and_then(|it| it.get("cdi_spec_dirs").and_then(strings));
    if dirs.is_some() || runtime.config.is_none() {
        runtime.config = Some(config.to_owned());
    }
    runtime.spec_dirs = dirs.or_else(|| runtime.spec_dirs.take());
    inner.cloned().unwrap_or_default()
}

/// `default_runtime` and the programs of `crio.runtime.runtimes`, as CRI-O's files set them
/// one after another (`RuntimeHandler` and `ValidateDefaultRuntime` of `pkg/config/config.go`).
#[derive(Default)]
struct CriOHandlers {
    /// The name, and the file.
    default: Option<(String, String)>,
    /// By handler: the program, and the file.
    programs: BTreeMap<String, (String, String)>,
}

// === impl CriOHandlers ===

impl CriOHandlers {
    fn merge(&mut self, section: &Table, file: &str) {
        let default = section.get("default_runtime").and_then(Value::as_str);
        let default = default.map(|name| (name.to_owned(), file.to_owned()));
        self.default = default.or_else(|| self.default.take());
        let handlers = section.get("runtimes").and_then(Value::as_table);
        for (name, handler) in handlers.into_iter().flatten() {
            // A table of a later file takes the place of the whole one.
            let program = handler.get("runtime_path").and_then(Value::as_str);
            let program = program.unwrap_or_default().to_owned();
            self.programs
                .insert(name.clone(), (program, file.to_owned()));
        }
    }

    /// `None`, if the default one has no program of its own: that is looked up by its name.
    fn default_handler(mut self) -> Option<Configured> {
        let (name, by) = self.default?;
        let Some((program, file)) = self.programs.remove(&name) else {
            let is_own = name.is_empty() || CRIO_OWN.contains(&name.as_str());
            return (!is_own).then_some(Configured::Undefined { name, file: by });
        };
        (!program.is_empty()).then(|| Configured::Program {
            setting: format!("runtime_path in [crio.runtime.runtimes.{name}]"),
            name,
            program,
            file,
        })
    }
}
