//! What a runtime starts containers with.

use super::places::service;
use crate::checks::demand::Demand;
use crate::facts::runtimes::model::{DefaultHandler, Runtime, RuntimeKind};
use crate::finding::Finding;

/// Without the program of the default handler, a container starts only if it names another
/// handler.
pub(super) fn check_handler(runtime: &Runtime, demand: Demand) -> Option<Finding> {
    let handler = runtime.default_handler.as_ref()?;
    let DefaultHandler {
        name,
        program,
        file,
        setting,
        exists: Some(false),
    } = handler
    else {
        return None;
    };
    let key = match runtime.kind {
        RuntimeKind::Containerd => "default_runtime_name",
        RuntimeKind::Docker => "\"default-runtime\"",
        RuntimeKind::CriO | RuntimeKind::Podman => "default_runtime",
    };
    Some(Finding::new(
        demand.severity(runtime),
        "runtime-handler-missing",
        runtime.subject(),
        format!(
            "{program} does not exist ({setting} of {file}), and containers are started with it by default ({key} is {name:?}): none starts"
        ),
        format!(
            "install what has {program} again (NVIDIA's container toolkit has nvidia-container-runtime), or have another {key}, such as \"runc\", and restart {}",
            service(runtime)
        ),
    ))
}
