//! What a runtime starts containers with.

use super::places::service;
use crate::checks::demand::Demand;
use crate::facts::runtimes::model::{DefaultHandler, Runtime, RuntimeKind};
use crate::finding::Finding;

/// Without the program of the default handler, a container starts only if it names another
/// handler. Without the handler itself, the runtime does not serve.
pub(super) fn check_handler(runtime: &Runtime, demand: Demand) -> Option<Finding> {
    let key = match runtime.kind {
        RuntimeKind::Containerd => "default_runtime_name",
        RuntimeKind::Docker => "\"default-runtime\"",
        RuntimeKind::CriO | RuntimeKind::Podman => "default_runtime",
    };
    let service = service(runtime);
    let (evidence, fix) = match runtime.default_handler.as_ref()? {
        DefaultHandler::Program {
            name,
            program,
            file,
            setting,
            exists: Some(false),
        } => (
            format!(
                "{program} does not exist ({setting} of {file}), and containers are started with it by default ({key} is {name:?}): none starts"
            ),
            format!(
                "install what has {program} again (NVIDIA's container toolkit has nvidia-container-runtime), or have another {key}, such as \"runc\", and restart {service}"
            ),
        ),
        DefaultHandler::Program { .. } => return None,
        DefaultHandler::Undefined { name, file } => (
            format!(
                "{key} is {name:?} in {file}, and its configuration defines no runtime of that name: {}",
                without_default(runtime.kind)
            ),
            format!(
                "define {name:?} (`nvidia-ctk runtime configure` does that for NVIDIA's runtime), or remove {key} from {file}, and restart {service}"
            ),
        ),
    };
    Some(Finding::new(
        demand.severity(runtime),
        "runtime-handler-missing",
        runtime.subject(),
        evidence,
        fix,
    ))
}

/// What becomes of it when it is started.
fn without_default(kind: RuntimeKind) -> &'static str {
    match kind {
        RuntimeKind::Containerd => "its CRI plugin is not loaded, and kubelet cannot use it",
        RuntimeKind::CriO | RuntimeKind::Docker | RuntimeKind::Podman => "it does not start",
    }
}
