//! `cdi-gen show`: one device, or one file, with all that a container gets.

mod edits;
mod report;

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use host_doctor::{BadNodes, Host, group_bad_nodes};
use imex_cdi::{DeviceName, QualifiedName, Registry};

use self::report::{DeviceReport, ShowReport};
use crate::args::{Show, Subject, Wanted};
use crate::document;
use crate::explanation::UnresolvedError;
use crate::host_specs::HostSpecs;
use crate::outcome::{CommandError, Failure, Outcome};
use crate::output::{Report, print};
use crate::selection;
use crate::stderr::note;
use crate::style::Style;
use crate::table;

/// What was asked for is neither a file nor a device's full name.
#[derive(Debug, thiserror::Error)]
#[error("{name} is neither a file nor the full name of a device (vendor/class=device)")]
struct ShortName {
    name: String,
    /// The full names that it can be short for.
    whole: Vec<String>,
}

pub(super) fn run(args: Show, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let Show {
        subject,
        specs,
        json,
    } = args;
    let specs = HostSpecs::open(&specs)?;
    let host = specs.host();
    let show = match subject {
        Subject::Device(name) => show_device(&specs.registry(), &name, &host)?,
        Subject::File(path) => {
            refuse_device_name(&path, &specs)?;
            show_file(&path, &host)?
        }
    };
    print(&show, json, stdout)?;
    let bad = group_bad_nodes(show.bad_nodes());
    for BadNodes { file, message, fix } in &bad {
        note(&format!("{file}: {message}; {fix}"));
    }
    Ok(if bad.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// An error if it is no file, but may be a part of a device's name, a kind or a pattern.
fn refuse_device_name(path: &Path, specs: &HostSpecs) -> Result<(), ShortName> {
    let is_spec = ["json", "yaml", "yml"].map(|end| path.extension() == Some(end.as_ref()));
    let is_name = |text: &&str| {
        let is_path = is_spec.contains(&true) || text.starts_with(['.', '/']);
        !is_path && (DeviceName::new(*text).is_ok() || text.parse::<Wanted>().is_ok())
    };
    let name = path.to_str().filter(is_name);
    let is_absent =
        matches!(path.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound);
    match name.filter(|_| is_absent) {
        Some(name) => Err(ShortName {
            name: name.to_owned(),
            whole: selection::named(&specs.registry(), name),
        }),
        None => Ok(()),
    }
}

fn show_device(
    registry: &Registry,
    name: &QualifiedName,
    host: &Host,
) -> Result<ShowReport, Failure> {
    let found = registry
        .resolve(name)
        .map_err(|reason| UnresolvedError::new(registry, &reason))?;
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
        .filter(|candidate| matches!(candidate.verdict, imex_cdi::Verdict::Shadowed { .. }))
        .map(|candidate| candidate.file.path.display().to_string())
        .collect();
    Ok(report)
}

fn show_file(path: &Path, host: &Host) -> Result<ShowReport, Failure> {
    let spec = document::spec(path, &document::read_spec(path)?)?;
    let mut report = ShowReport::new(path.display().to_string(), None, &spec, host);
    report.devices = spec
        .devices()
        .iter()
        .enumerate()
        .map(|(index, device)| DeviceReport::new(&spec, index, device, host))
        .collect();
    Ok(report)
}

// === impl ShortName ===

impl CommandError for ShortName {
    fn outcome(&self) -> Outcome {
        // What is no name of a device, and has nothing of one, is a file that does not exist.
        if self.whole.is_empty() && !self.name.contains(['=', '*']) {
            Outcome::Io
        } else {
            Outcome::Unresolved
        }
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        Some(match self.whole.as_slice() {
            [] => "`cdi-gen list` has the devices; of a file, check the path".into(),
            names => selection::write_hint(names).into(),
        })
    }
}

impl Report for ShowReport {
    fn write_text(&self, _: Style, output: &mut impl Write) -> io::Result<()> {
        table::write_properties(properties(self), output)?;
        for device in &self.devices {
            writeln!(output)?;
            table::write_properties([("device", device.name.clone())], output)?;
            let own = edits::rows(&device.field, &device.edits, &device.nodes, &device.paths);
            let shared = edits::rows("containerEdits", &self.edits, &self.nodes, &self.paths);
            table::write(
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
        Some(priority) => format!(" (priority {priority}; files of a later --spec-dir win)"),
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
