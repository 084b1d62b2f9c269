//! The data that `list` prints.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use dra_common::error_chain;
use host_doctor::{Host, HostPaths, MissingPath, NodeReport, OneLetterKind, rewrite_fix};
use imex_cdi::{
    DeviceName, DirState, Kind, LoadError, QualifiedName, Registry, ResolveError, Spec, SpecDir,
    SpecFile,
};
use serde::{Serialize, Serializer};

use super::claims::{CheckpointState, ClaimRecords, ClaimReport};
use crate::args::DeviceSelection;
use crate::host_specs::VersionReport;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListReport<'a> {
    schema: &'static str,
    checkpoint: CheckpointState,
    pub(super) dirs: Vec<DirReport>,
    pub(super) files: Vec<FileReport>,
    pub(super) devices: Vec<DeviceReport<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DirReport {
    path: String,
    priority: usize,
    state: &'static str,
    pub(super) error: Option<FileError>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileReport {
    pub(super) path: String,
    priority: usize,
    kind: Option<String>,
    version: Option<VersionReport>,
    devices: usize,
    pub(super) error: Option<FileError>,
    /// Host paths that its devices need and the host lacks.
    pub(super) missing_paths: Vec<MissingPath>,
    /// The fix for missing paths.
    #[serde(skip)]
    pub(super) rewrite: String,
}

/// One device. Borrows its names: a host can have 100 000s of devices.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceReport<'a> {
    pub(super) name: FullName<'a>,
    pub(super) file: Cow<'a, str>,
    pub(super) priority: usize,
    pub(super) state: DeviceState,
    pub(super) shadowed_by: Option<Cow<'a, str>>,
    pub(super) conflicts_with: Box<[String]>,
    pub(super) version: VersionReport,
    /// Boxed: most devices have none.
    pub(super) claim: Option<Box<ClaimReport>>,
    pub(super) nodes: Vec<NodeReport>,
    /// Whether its own edits, or the edits shared by all devices of its file, need missing paths.
    #[serde(skip)]
    pub(super) lacks_paths: bool,
}

/// `vendor/class=device`, written when it is printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullName<'a> {
    kind: &'a Kind,
    device: &'a DeviceName,
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

/// What a container that requests the device's name gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DeviceState {
    /// This device.
    Resolves,
    /// The device of another file.
    Shadowed,
    /// Nothing: files of one directory define the name twice.
    Conflict,
}

// === impl ListReport ===

impl<'a> ListReport<'a> {
    /// Lists the devices that `wanted` matches, or all if it is empty.
    pub(super) fn new(
        registry: &'a Registry,
        host: &Host,
        records: &ClaimRecords<'_>,
        wanted: &[DeviceSelection],
    ) -> Self {
        let files = registry.files().iter();
        let mut paths = HostPaths::new(host);
        let reports = files.clone();
        let reports = reports.map(|file| FileReport::new(registry, file, host, &mut paths));
        Self {
            schema: "cdi-gen/list/v1",
            checkpoint: records.state(),
            dirs: registry.dirs().iter().map(DirReport::new).collect(),
            files: reports.collect(),
            devices: files
                .filter_map(|file| Some((file, file.spec.as_ref().ok()?)))
                .flat_map(|(file, spec)| {
                    devices(registry, file, spec, host, &mut paths, records, wanted)
                })
                .collect(),
        }
    }

    /// Whether every spec is loaded, no devices conflict, and the host has every node and path that
    /// they need.
    pub(super) fn is_clean(&self) -> bool {
        let mut devices = self.devices.iter();
        self.dirs.iter().all(|dir| dir.error.is_none())
            && self.files.iter().all(|file| file.error.is_none())
            && devices.all(|device| device.state != DeviceState::Conflict)
            && self.bad_nodes().next().is_none()
            && self.files_without_paths().next().is_none()
    }

    /// The files of listed devices that need paths which the host lacks.
    pub(super) fn files_without_paths(&self) -> impl Iterator<Item = &FileReport> {
        let devices = self.devices.iter();
        let lacking = devices.filter(|it| it.lacks_paths && it.state == DeviceState::Resolves);
        let lacking: BTreeSet<&str> = lacking.map(|device| &*device.file).collect();
        let files = self.files.iter();
        files.filter(move |file| lacking.contains(file.path.as_str()))
    }

    /// The nodes that a container would not get, with their files.
    pub(super) fn bad_nodes(&self) -> impl Iterator<Item = (&str, &NodeReport)> {
        let devices = self.devices.iter();
        let devices = devices.filter(|device| device.state == DeviceState::Resolves);
        devices.flat_map(|device| {
            let bad = device.nodes.iter().filter(|node| node.state.is_bad());
            bad.map(|node| (&*device.file, node))
        })
    }
}

fn devices<'a>(
    registry: &'a Registry,
    file: &'a SpecFile,
    spec: &'a Spec,
    host: &Host,
    paths: &mut HostPaths<'_>,
    records: &ClaimRecords<'_>,
    wanted: &[DeviceSelection],
) -> Vec<DeviceReport<'a>> {
    // Once, not for each device: both examine the whole spec.
    let version = VersionReport::new(spec);
    let shared: Vec<NodeReport> =
        NodeReport::from_edits(spec, spec.container_edits(), host).collect();
    let shared_lacks = !paths.missing(spec.container_edits()).is_empty();
    let claim = records.claim(file).map(Box::new);
    let is_wanted = |name: &DeviceName| {
        wanted.is_empty() || wanted.iter().any(|it| it.matches(spec.kind(), name))
    };
    let devices = spec.devices().iter().filter(|it| is_wanted(&it.name));
    let reports = devices.map(|device| {
        let name = QualifiedName::new(spec.kind().clone(), device.name.clone());
        let (state, shadowed_by, conflicts_with) = device_state(registry, file, &name);
        let own = NodeReport::from_edits(spec, &device.container_edits, host);
        DeviceReport {
            name: FullName {
                kind: spec.kind(),
                device: &device.name,
            },
            file: file.path.to_string_lossy(),
            priority: file.priority,
            state,
            shadowed_by,
            conflicts_with,
            version,
            claim: claim.clone(),
            nodes: own.chain(shared.iter().cloned()).collect(),
            lacks_paths: shared_lacks || !paths.missing(&device.container_edits).is_empty(),
        }
    });
    reports.collect()
}

/// The state of the device `name` of `file`, the file that shadows it, and the
/// files that it conflicts with.
fn device_state<'a>(
    registry: &'a Registry,
    file: &SpecFile,
    name: &QualifiedName,
) -> (DeviceState, Option<Cow<'a, str>>, Box<[String]>) {
    match registry.resolve(name) {
        Ok(winner) if std::ptr::eq(winner.file, file) => (DeviceState::Resolves, None, [].into()),
        Ok(winner) => (
            DeviceState::Shadowed,
            Some(winner.file.path.to_string_lossy()),
            [].into(),
        ),
        Err(ResolveError::Conflict { files, .. }) => {
            let others = files.iter().filter(|other| **other != file.path);
            let others = others.map(|path| path.display().to_string()).collect();
            (DeviceState::Conflict, None, others)
        }
        // Nothing else is possible: the file defines the device.
        Err(_) => (DeviceState::Conflict, None, [].into()),
    }
}

// === impl FullName ===

impl fmt::Display for FullName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, device } = self;
        write!(f, "{kind}={device}")
    }
}

impl Serialize for FullName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl DirReport ===

impl DirReport {
    fn new(dir: &SpecDir) -> Self {
        let (state, error) = match &dir.state {
            DirState::Listed => ("listed", None),
            DirState::Absent => ("absent", None),
            DirState::Skipped(error) => {
                let error = FileError::new(error.code(), error_chain(error), error.hint());
                ("skipped", Some(error))
            }
        };
        Self {
            path: dir.path.display().to_string(),
            priority: dir.priority,
            state,
            error,
        }
    }
}

// === impl FileReport ===

impl FileReport {
    fn new(registry: &Registry, file: &SpecFile, host: &Host, paths: &mut HostPaths<'_>) -> Self {
        let spec = file.spec.as_ref().ok();
        let error = file.spec.as_ref().err().map(FileError::from_file);
        let name = host.host_name(&file.path);
        let missing_paths = paths.missing_in(registry, file);
        Self {
            path: file.path.display().to_string(),
            priority: file.priority,
            kind: spec.map(|spec| spec.kind().to_string()),
            version: spec.map(|spec| VersionReport::new(spec)),
            devices: spec.map_or(0, |spec| spec.devices().len()),
            error: error.or_else(|| FileError::from_kind(file)),
            rewrite: spec.map_or_else(String::new, |spec| rewrite_fix(spec, &name, &missing_paths)),
            missing_paths,
        }
    }
}

// === impl FileError ===

impl FileError {
    fn from_file(error: &LoadError) -> Self {
        let mut found = Self::new(error.code(), error_chain(error), error.hint());
        if let LoadError::Invalid { source, .. } = error {
            found.field = source.field().map(str::to_owned);
            (found.line, found.column) = source.position().unzip();
        }
        found
    }

    /// The error for a spec that this library loads, but that crashes a runtime.
    fn from_kind(file: &SpecFile) -> Option<Self> {
        let spec = file.spec.as_ref().ok()?;
        let message = OneLetterKind::of(spec.kind())?.message("a runtime");
        let message = format!("{}: {message}", file.path.display());
        Some(Self {
            field: Some("kind".to_owned()),
            ..Self::new(OneLetterKind::CODE, message, OneLetterKind::FIX)
        })
    }

    /// An error about a file or directory as a whole.
    fn new(code: &'static str, message: String, fix: &'static str) -> Self {
        Self {
            code,
            message,
            fix,
            field: None,
            line: None,
            column: None,
        }
    }
}

// === impl DeviceState ===

impl DeviceState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Resolves => "resolves",
            Self::Shadowed => "shadowed",
            Self::Conflict => "conflict",
        }
    }
}
