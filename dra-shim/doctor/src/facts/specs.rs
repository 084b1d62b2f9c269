//! The CDI specs of a host, and their device nodes.

use std::ffi::OsStr;
use std::sync::Arc;

use imex_cdi::{ClaimUid, Conflict, DeviceNode, LoadError, PROC_DEVICES, Registry, Spec, SpecFile};

use crate::dra_driver::DraDriver;
use crate::error_facts::ErrorFacts;
use crate::host::Host;
use crate::node_report::NodeReport;
use crate::spec_node::{REPLACE_CLAIM_SPEC, device_nodes};
use crate::spec_paths::{HostPaths, MissingPath, resolves_to_file};

/// Every spec file that runtimes read.
#[derive(Debug, Clone, Default)]
pub struct SpecFacts {
    /// By directory, lowest priority first, then by name.
    pub files: Vec<SpecFileFacts>,
    /// Devices that do not resolve, because two files of one directory define them.
    pub conflicts: Vec<DeviceConflict>,
    /// The number of devices that resolve.
    pub resolved_devices: usize,
}

/// A spec file.
#[derive(Debug, Clone)]
pub struct SpecFileFacts {
    /// Its path.
    pub path: String,
    /// The spec in it, or why it has none. The error may quote the file.
    pub spec: Result<Arc<Spec>, ErrorFacts>,
    /// Its device nodes; empty for a file without a spec.
    pub nodes: Vec<NodeReport>,
    /// Whether files of higher priority define all its devices, so that no container gets one
    /// from it.
    pub is_shadowed: bool,
    /// Mount sources and hook programs of its devices that the host does not have. Only for
    /// devices that resolve to this file.
    pub missing_paths: Vec<MissingPath>,
}

/// A device that does not resolve because two files define it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConflict {
    /// The device's qualified name.
    pub name: String,
    /// The files that define it.
    pub files: Vec<String>,
    /// The code of the conflict, and the fix.
    pub error: ErrorFacts,
}

// === impl SpecFacts ===

impl SpecFacts {
    pub(crate) fn read(host: &Host, registry: &Registry) -> Self {
        let files = registry.files().iter();
        let conflicts = registry.conflicts();
        let mut paths = HostPaths::new(host);
        Self {
            files: files
                .map(|file| SpecFileFacts::read(host, registry, file, &mut paths))
                .collect(),
            conflicts: conflicts
                .map(|conflict| DeviceConflict::read(host, &conflict))
                .collect(),
            resolved_devices: registry.devices().count(),
        }
    }
}

// === impl SpecFileFacts ===

impl SpecFileFacts {
    fn read(host: &Host, registry: &Registry, file: &SpecFile, paths: &mut HostPaths<'_>) -> Self {
        let spec = match &file.spec {
            Ok(spec) => Ok(Arc::clone(spec)),
            Err(error) => {
                let hint = match error {
                    LoadError::Invalid { .. } if is_of_claim(file) => REPLACE_CLAIM_SPEC,
                    _ => error.hint(),
                };
                let code = error.code();
                Err(ErrorFacts::new(host, &file.path, error, code, hint))
            }
        };
        let nodes = spec.iter().flat_map(|spec| {
            let nodes = device_nodes(spec);
            nodes.map(|node| node_report(host, spec, node))
        });
        let nodes = nodes.collect();
        Self {
            path: host.host_name(&file.path),
            spec,
            nodes,
            is_shadowed: is_shadowed(registry, file),
            missing_paths: paths.missing_in(registry, file),
        }
    }
}

/// Whether the file has the name of a claim's spec.
fn is_of_claim(file: &SpecFile) -> bool {
    let name = file.path.file_name().and_then(OsStr::to_str);
    let is_of = |driver: DraDriver| {
        ClaimUid::from_spec_file_name(&driver.claim_kind(), name.unwrap_or_default()).is_some()
    };
    DraDriver::ALL.into_iter().any(is_of)
}

fn is_shadowed(registry: &Registry, file: &SpecFile) -> bool {
    file.spec.as_ref().is_ok_and(|spec| {
        let mut devices = spec.devices().iter();
        devices.all(|device| resolves_to_file(registry, file, spec, device) == Some(false))
    })
}

/// Compares the node with the host's, with the host's own paths.
fn node_report(host: &Host, spec: &Spec, node: &DeviceNode) -> NodeReport {
    let mut report = NodeReport::new(spec, node, host);
    // The message about a stale major names the list of majors.
    let list = host.resolve(PROC_DEVICES);
    report.message = report
        .message
        .map(|message| host.with_host_names(&message, &list));
    report
}

// === impl DeviceConflict ===

impl DeviceConflict {
    fn read(host: &Host, conflict: &Conflict<'_>) -> Self {
        let paths = conflict.files.iter().map(|file| &file.path);
        Self {
            name: conflict.name.to_string(),
            files: paths.map(|path| host.host_name(path)).collect(),
            error: ErrorFacts {
                code: conflict.code(),
                message: conflict.to_string(),
                hint: conflict.hint().to_owned(),
            },
        }
    }
}
