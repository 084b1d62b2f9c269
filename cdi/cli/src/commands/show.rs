//! `cdi-gen show`: one device or file, with everything that a container gets from it.

mod edits;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use host_doctor::{BadNodes, Host, HostPaths, NodeReport, group_bad_nodes};
use imex_cdi::{ContainerEdits, Device, DeviceName, QualifiedName, Registry, Spec, Verdict};
use serde::Serialize;

use self::edits::Paths;
use super::why;
use crate::args::{DeviceSelection, Show, Subject};
use crate::host_specs::{HostSpecs, VersionReport};
use crate::input;
use crate::outcome::{Failure, Outcome};
use crate::output::{Report, print, write_properties, write_table};
use crate::selection;
use crate::terminal::{Style, note};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShowReport {
    schema: &'static str,
    file: String,
    priority: Option<usize>,
    /// Files of lower priority that define the device too.
    shadows: Vec<String>,
    kind: String,
    version: VersionReport,
    /// The fields that need the most recent version.
    needs: Vec<Need>,
    annotations: BTreeMap<String, String>,
    /// What a container gets with any of the devices.
    #[serde(rename = "containerEdits")]
    edits: ContainerEdits,
    nodes: Vec<NodeReport>,
    #[serde(skip)]
    paths: Paths,
    devices: Vec<DeviceReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Need {
    version: &'static str,
    field: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceReport {
    name: String,
    /// The path of its edits in the file.
    field: String,
    annotations: BTreeMap<String, String>,
    #[serde(rename = "containerEdits")]
    edits: ContainerEdits,
    nodes: Vec<NodeReport>,
    #[serde(skip)]
    paths: Paths,
}

pub(super) fn run(args: &Show, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let specs = HostSpecs::open(&args.specs)?;
    let show = match &args.subject {
        Subject::Device(name) => show_device(&specs.registry(), name, &specs.host)?,
        Subject::File(path) => {
            refuse_device_name(path, &specs)?;
            show_file(path, &specs.host)?
        }
    };
    print(&show, args.json, stdout)?;
    let bad = group_bad_nodes(show.bad_nodes());
    for BadNodes { file, message, fix } in &bad {
        note(&format!("{file}: {message}; {fix}"));
    }
    Ok(Outcome::of(bad.is_empty()))
}

/// Returns an error if `path` is not a file, but may be part of a device name, a kind or a pattern.
fn refuse_device_name(path: &Path, specs: &HostSpecs) -> Result<(), Failure> {
    let is_spec = ["json", "yaml", "yml"].map(|end| path.extension() == Some(end.as_ref()));
    let is_name = |text: &&str| {
        let is_path = is_spec.contains(&true) || text.starts_with(['.', '/']);
        !is_path && (DeviceName::new(*text).is_ok() || text.parse::<DeviceSelection>().is_ok())
    };
    let name = path.to_str().filter(is_name);
    let is_absent =
        matches!(path.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound);
    let Some(name) = name.filter(|_| is_absent) else {
        return Ok(());
    };
    let whole = selection::named(&specs.registry(), name);
    // Text that neither matches a device nor looks like a name is a missing file.
    let is_file = whole.is_empty() && !name.contains(['=', '*']);
    let outcome = if is_file {
        Outcome::Io
    } else {
        Outcome::Unresolved
    };
    let message =
        format!("{name} is neither a file nor the full name of a device (vendor/class=device)");
    let hint = match whole.as_slice() {
        [] => "run `cdi-gen list` to see the device names; for a file, check the path".to_owned(),
        names => selection::write_hint(names),
    };
    Err(Failure::new(outcome, message).hint(hint))
}

fn show_device(
    registry: &Registry,
    name: &QualifiedName,
    host: &Host,
) -> Result<ShowReport, Failure> {
    let found = registry
        .resolve(name)
        .map_err(|_| why::unresolved(registry, name))?;
    let mut report = ShowReport::new(
        found.file.path.display().to_string(),
        Some(found.file.priority),
        found.spec,
        host,
    );
    let explanation = registry.explain(name);
    report.devices = vec![DeviceReport::new(
        found.spec,
        found.index,
        found.device,
        host,
    )];
    report.shadows = explanation
        .candidates
        .iter()
        .filter(|candidate| matches!(candidate.verdict, Verdict::Shadowed { .. }))
        .map(|candidate| candidate.file.path.display().to_string())
        .collect();
    Ok(report)
}

fn show_file(path: &Path, host: &Host) -> Result<ShowReport, Failure> {
    let spec = input::spec(path)?;
    let mut report = ShowReport::new(path.display().to_string(), None, &spec, host);
    report.devices = spec
        .devices()
        .iter()
        .enumerate()
        .map(|(index, device)| DeviceReport::new(&spec, index, device, host))
        .collect();
    Ok(report)
}

// === impl ShowReport ===

impl ShowReport {
    /// A file, without its devices.
    fn new(file: String, priority: Option<usize>, spec: &Spec, host: &Host) -> Self {
        let needed = spec.needed_version();
        let needs = spec.needs().filter(|(version, _)| *version == needed);
        Self {
            schema: "cdi-gen/show/v1",
            file,
            priority,
            shadows: vec![],
            kind: spec.kind().to_string(),
            version: VersionReport::new(spec),
            needs: needs
                .map(|(version, field)| Need {
                    version: version.as_str(),
                    field,
                })
                .collect(),
            annotations: spec.annotations().clone(),
            edits: spec.container_edits().clone(),
            nodes: NodeReport::from_edits(spec, spec.container_edits(), host).collect(),
            paths: Paths::new(spec.container_edits(), &mut HostPaths::new(host)),
            devices: vec![],
        }
    }

    /// The nodes that a container would not get, with their file.
    fn bad_nodes(&self) -> impl Iterator<Item = (&str, &NodeReport)> {
        let of_devices = self.devices.iter().flat_map(|device| &device.nodes);
        let bad = of_devices.chain(&self.nodes);
        let bad = bad.filter(|node| node.state.is_bad());
        bad.map(|node| (self.file.as_str(), node))
    }
}

// === impl DeviceReport ===

impl DeviceReport {
    fn new(spec: &Spec, index: usize, device: &Device, host: &Host) -> Self {
        let name = QualifiedName::new(spec.kind().clone(), device.name.clone());
        Self {
            name: name.to_string(),
            field: format!("devices[{index}].containerEdits"),
            annotations: device.annotations.clone(),
            edits: device.container_edits.clone(),
            nodes: NodeReport::from_edits(spec, &device.container_edits, host).collect(),
            paths: Paths::new(&device.container_edits, &mut HostPaths::new(host)),
        }
    }
}

impl Report for ShowReport {
    fn write_text(&self, _: Style, output: &mut impl Write) -> io::Result<()> {
        write_properties(properties(self), output)?;
        for device in &self.devices {
            writeln!(output)?;
            write_properties([("device", device.name.clone())], output)?;
            let own = edits::rows(&device.field, &device.edits, &device.nodes, &device.paths);
            let shared = edits::rows("containerEdits", &self.edits, &self.nodes, &self.paths);
            write_table(
                ["FIELD", "EDIT", "HOST"],
                own.into_iter().chain(shared),
                output,
            )?;
        }
        Ok(())
    }
}

fn properties(report: &ShowReport) -> Vec<(&'static str, String)> {
    let priority = match report.priority {
        Some(priority) => {
            format!(" (priority {priority}; files in a later --spec-dir take precedence)")
        }
        None => String::new(),
    };
    let mut properties = vec![("file", format!("{}{priority}", report.file))];
    for shadowed in &report.shadows {
        properties.push(("shadows", shadowed.clone()));
    }
    properties.push(("kind", report.kind.clone()));
    properties.push(("version", report.version.to_string()));
    if let Some(need) = report.needs.first() {
        let others = match report.needs.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let cause = format!("{} because of {}{others}", need.version, need.field);
        properties.push(("needs", cause));
    }
    for (key, value) in &report.annotations {
        properties.push(("note", format!("{key}={value}")));
    }
    properties
}
