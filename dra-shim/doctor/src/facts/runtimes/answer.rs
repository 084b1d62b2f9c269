//! What the runtime that serves kubelet says of itself.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::model::{CdiSettings, CdiSupport, DefaultHandler, RuntimeKind};
use super::toml_file::strings;
use crate::cri::{self, CriError};
use crate::files::HostFiles;
use crate::packages;

/// The runtime at a socket.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) kind: RuntimeKind,
    pub(super) version: Option<String>,
    pub(super) settings: CdiSettings,
}

/// Asks who it is, and then in its own way how it is configured.
pub(super) fn ask(files: &HostFiles, socket: &Path) -> Result<Answer, CriError> {
    let cri::Version { name, version } = cri::version(socket)?;
    let (kind, settings) = match name.as_str() {
        "containerd" => {
            let settings = of_containerd(files, &cri::verbose_status(socket)?);
            (RuntimeKind::Containerd, settings)
        }
        "cri-o" => (
            RuntimeKind::CriO,
            of_crio(files, &cri::crio_config(socket)?),
        ),
        // cri-dockerd gives the name of what it stands for.
        "docker" => (RuntimeKind::CriDockerd, only(CdiSupport::Absent)),
        _ => {
            return Err(CriError::Failed(format!(
                "it is {name:?}, which is not known here"
            )));
        }
    };
    Ok(Answer {
        kind,
        version: packages::release(&version),
        settings,
    })
}

/// Nothing but whether there is CDI is known.
pub(super) fn only(support: CdiSupport) -> CdiSettings {
    CdiSettings {
        support,
        spec_dirs: None,
        default_handler: None,
    }
}

/// `config`, as containerd counts it from all its files: 1.6 has neither of the members,
/// and a release in which CDI is always on has no use for the first.
fn of_containerd(files: &HostFiles, info: &BTreeMap<String, String>) -> CdiSettings {
    let config = info.get("config").map(|it| serde_json::from_str(it));
    let Some(Ok::<Json, _>(config)) = config else {
        let why = "its answer has no configuration".to_owned();
        return only(CdiSupport::Unknown(why));
    };
    let dirs = config.get("cdiSpecDirs").and_then(Json::as_array);
    let support = match config.get("enableCDI").and_then(Json::as_bool) {
        Some(false) => CdiSupport::Off,
        Some(true) => CdiSupport::On,
        None if dirs.is_some() => CdiSupport::On,
        None => CdiSupport::Absent,
    };
    let text = |pointer: &str| config.pointer(pointer).and_then(Json::as_str);
    let handler = text("/containerd/defaultRuntimeName").and_then(|name| {
        let at = format!("/containerd/runtimes/{name}");
        // Other shims have options of their own.
        let kind = text(&format!("{at}/runtimeType"))?;
        let program = text(&format!("{at}/options/BinaryName"))?;
        kind.contains(".runc.").then_some((name, program))
    });
    CdiSettings {
        support,
        spec_dirs: dirs.map(|dirs| {
            let dirs = dirs.iter().filter_map(Json::as_str);
            dirs.map(str::to_owned).collect()
        }),
        default_handler: handler.and_then(|(name, program)| look_up(files, name, program)),
    }
}

fn of_crio(files: &HostFiles, config: &str) -> CdiSettings {
    let config = config.parse::<Table>().ok();
    let runtime = config
        .as_ref()
        .and_then(|it| it.get("crio")?.get("runtime"));
    let Some(runtime) = runtime else {
        let why = "its answer has no configuration".to_owned();
        return only(CdiSupport::Unknown(why));
    };
    let spec_dirs = runtime.get("cdi_spec_dirs").and_then(strings);
    let name = runtime.get("default_runtime").and_then(Value::as_str);
    let handler = name.and_then(|name| {
        let program = runtime.get("runtimes")?.get(name)?.get("runtime_path")?;
        look_up(files, name, program.as_str()?)
    });
    CdiSettings {
        support: spec_dirs
            .as_ref()
            .map_or(CdiSupport::Absent, |_| CdiSupport::On),
        spec_dirs,
        default_handler: handler,
    }
}

/// `None` of a name, which the runtime looks up, and of a program that cannot be examined.
fn look_up(files: &HostFiles, name: &str, program: &str) -> Option<DefaultHandler> {
    let exists = files.try_exists(program).ok()?;
    program.starts_with('/').then(|| DefaultHandler {
        name: name.to_owned(),
        program: program.to_owned(),
        exists,
    })
}
