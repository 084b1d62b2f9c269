//! What `list` says, as data: the table and the JSON are two views of it.

use std::fmt;
use std::path::Path;

use compute_domain_node::with_sources;
use imex_cdi::{
    DirError, DirState, LoadError, QualifiedName, Registry, Spec, SpecDir, SpecError, SpecFile,
    Unresolved,
};
use serde::Serialize;

use crate::host::Host;
use crate::host_node::NodeReport;

const SCHEMA: &str = "cdi-gen/list/v1";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    schema: &'static str,
    pub(super) dirs: Vec<DirReport>,
    pub(super) files: Vec<FileReport>,
    pub(super) devices: Vec<DeviceReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DirReport {
    pub(super) path: String,
    priority: usize,
    pub(super) state: &'static str,
    pub(super) error: Option<FileError>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileReport {
    path: String,
    priority: usize,
    kind: Option<String>,
    version: Option<VersionReport>,
    devices: usize,
    pub(super) error: Option<FileError>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceReport {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) priority: usize,
    pub(super) state: DeviceState,
    pub(super) shadowed_by: Option<String>,
    pub(super) conflicts_with: Vec<String>,
    pub(super) version: VersionReport,
    pub(super) nodes: Vec<NodeReport>,
}

/// Why a file or a directory defines nothing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileError {
    code: &'static str,
    pub(super) message: String,
    pub(super) fix: &'static str,
    field: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
}

/// What a spec says, and what it would have to.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionReport {
    declared: &'static str,
    needed: &'static str,
}

/// What a container gets that asks for the device's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DeviceState {
    /// This device.
    Resolves,
    /// That of another file.
    Shadowed,
    /// Nothing: the files are at odds.
    Conflict,
}

// === impl Report ===

impl Report {
    pub(super) fn of(registry: &Registry, host: &Host) -> Self {
        let files = registry.files().iter();
        Self {
            schema: SCHEMA,
            dirs: registry.dirs().iter().map(DirReport::of).collect(),
            files: files.clone().map(FileReport::of).collect(),
            devices: files
                .filter_map(|file| Some((file, file.spec.as_ref().ok()?)))
                .flat_map(|(file, spec)| devices(registry, file, spec, host))
                .collect(),
        }
    }

    /// Whether nothing keeps a device from a container, nor the host from
    /// having what its spec says.
    pub(super) fn is_clean(&self) -> bool {
        self.dirs.iter().all(|dir| dir.error.is_none())
            && self.files.iter().all(|file| file.error.is_none())
            && self
                .devices
                .iter()
                .all(|device| device.state != DeviceState::Conflict)
            && self.bad_nodes().next().is_none()
    }

    /// The nodes that a container would ask for in vain, with their files.
    pub(super) fn bad_nodes(&self) -> impl Iterator<Item = (&str, &NodeReport)> {
        let devices = self.devices.iter();
        let devices = devices.filter(|device| device.state == DeviceState::Resolves);
        devices.flat_map(|device| {
            let bad = device.nodes.iter().filter(|node| node.state.is_bad());
            bad.map(|node| (device.file.as_str(), node))
        })
    }
}

fn devices(registry: &Registry, file: &SpecFile, spec: &Spec, host: &Host) -> Vec<DeviceReport> {
    // Once, not for each device: both look at the whole spec.
    let version = VersionReport::of(spec);
    let shared: Vec<NodeReport> =
        NodeReport::of_edits(spec, spec.container_edits(), host).collect();
    let devices = spec.devices().iter();
    let reports = devices.map(|device| {
        let name = QualifiedName::new(spec.kind().clone(), device.name.clone());
        let (state, shadowed_by, conflicts_with) = device_state(registry, file, &name);
        let own = NodeReport::of_edits(spec, &device.container_edits, host);
        DeviceReport {
            name: name.to_string(),
            file: shown(&file.path),
            priority: file.priority,
            state,
            shadowed_by,
            conflicts_with,
            version,
            nodes: own.chain(shared.iter().cloned()).collect(),
        }
    });
    reports.collect()
}

/// The state of `file`'s device `name`, the file that shadows it, and the files
/// with which it is in conflict.
fn device_state(
    registry: &Registry,
    file: &SpecFile,
    name: &QualifiedName,
) -> (DeviceState, Option<String>, Vec<String>) {
    match registry.resolve(name) {
        Ok(winner) if std::ptr::eq(winner.file, file) => (DeviceState::Resolves, None, vec![]),
        Ok(winner) => (
            DeviceState::Shadowed,
            Some(shown(&winner.file.path)),
            vec![],
        ),
        Err(Unresolved::Conflict { files, .. }) => {
            let others = files.iter().filter(|other| **other != file.path);
            let others = others.map(|path| shown(path)).collect();
            (DeviceState::Conflict, None, others)
        }
        // The file defines it, so that it is known.
        Err(_) => (DeviceState::Conflict, None, vec![]),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

// === impl DirReport ===

impl DirReport {
    fn of(dir: &SpecDir) -> Self {
        let (state, error) = match &dir.state {
            DirState::Listed => ("listed", None),
            DirState::Absent => ("absent", None),
            DirState::Skipped(error) => ("skipped", Some(FileError::of_dir(error))),
        };
        Self {
            path: shown(&dir.path),
            priority: dir.priority,
            state,
            error,
        }
    }
}

// === impl FileReport ===

impl FileReport {
    fn of(file: &SpecFile) -> Self {
        let spec = file.spec.as_ref().ok();
        Self {
            path: shown(&file.path),
            priority: file.priority,
            kind: spec.map(|spec| spec.kind().to_string()),
            version: spec.map(|spec| VersionReport::of(spec)),
            devices: spec.map_or(0, |spec| spec.devices().len()),
            error: file.spec.as_ref().err().map(FileError::of_file),
        }
    }
}

// === impl FileError ===

impl FileError {
    fn of_file(error: &LoadError) -> Self {
        let spec = match error {
            LoadError::Invalid { source, .. } => Some(source),
            _ => None,
        };
        let position = spec.and_then(SpecError::position);
        Self {
            code: error.code(),
            message: with_sources(error),
            fix: error.hint(),
            field: spec.and_then(SpecError::field).map(str::to_owned),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
        }
    }

    fn of_dir(error: &DirError) -> Self {
        Self {
            code: error.code(),
            message: with_sources(error),
            fix: error.hint(),
            field: None,
            line: None,
            column: None,
        }
    }
}

// === impl VersionReport ===

impl VersionReport {
    pub(crate) fn of(spec: &Spec) -> Self {
        Self {
            declared: spec.version().as_str(),
            needed: spec.needed_version().as_str(),
        }
    }
}

impl fmt::Display for VersionReport {
    /// One number where one will do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declared, needed } = self;
        f.write_str(declared)?;
        if declared != needed {
            write!(f, " (needs {needed})")?;
        }
        Ok(())
    }
}

// === impl DeviceState ===

impl DeviceState {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Resolves => "resolves",
            Self::Shadowed => "shadowed",
            Self::Conflict => "conflict",
        }
    }
}
