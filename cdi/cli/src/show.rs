//! `cdi-gen show`: one device, or one file, with all that a container gets.

mod edits;
mod report;

use std::io::{self, Write};
use std::path::Path;

use imex_cdi::{QualifiedName, Registry};

use self::report::{DeviceReport, Report};
use crate::args::{Show, Subject};
use crate::document;
use crate::failure::{Failure, Outcome, note};
use crate::host::Host;
use crate::host_node::told;
use crate::printable::write_json;
use crate::table;

pub(crate) fn run(args: Show, output: &mut impl Write) -> Result<Outcome, Failure> {
    let Show {
        subject,
        specs,
        json,
    } = args;
    let host = specs.host()?;
    let report = match subject {
        Subject::Device(name) => of_device(&specs.registry()?, &name, &host)?,
        Subject::File(path) => of_file(&path, &host)?,
    };
    if json {
        write_json(&report, output)
    } else {
        write_tables(&report, output)
    }
    .map_err(Failure::Output)?;
    output.flush().map_err(Failure::Output)?;
    for (file, message, fix) in told(report.bad_nodes()) {
        note(&format!("{file}: {message}; {fix}"));
    }
    Ok(Outcome::Clean)
}

fn of_device(registry: &Registry, name: &QualifiedName, host: &Host) -> Result<Report, Failure> {
    let found = registry
        .resolve(name)
        .map_err(|reason| Failure::unresolved(registry, &[reason], None))?;
    let mut report = Report::new(
        found.file.path.to_string_lossy(),
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
        .map(|candidate| candidate.file.path.to_string_lossy().into_owned())
        .collect();
    Ok(report)
}

fn of_file(path: &Path, host: &Host) -> Result<Report, Failure> {
    let spec = document::spec(path, &document::read(path)?)?;
    let mut report = Report::new(path.to_string_lossy(), None, &spec, host);
    report.devices = spec
        .devices()
        .iter()
        .enumerate()
        .map(|(index, device)| DeviceReport::new(&spec, index, device, host))
        .collect();
    Ok(report)
}

fn write_tables(report: &Report, output: &mut impl Write) -> io::Result<()> {
    table::write_facts(facts(report), output)?;
    for device in &report.devices {
        writeln!(output)?;
        table::write_facts([("device", device.name.clone())], output)?;
        let own = edits::rows(&device.field, &device.edits, &device.nodes);
        let shared = edits::rows("containerEdits", &report.edits, &report.nodes);
        table::write(
            ["FIELD", "EDIT", "HOST"],
            own.into_iter().chain(shared),
            output,
        )?;
    }
    Ok(())
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let priority = match report.priority {
        Some(priority) => format!(" (priority {priority}; files of a later --spec-dir win)"),
        None => String::new(),
    };
    let mut facts = vec![("file", format!("{}{priority}", report.file))];
    for shadowed in &report.shadows {
        facts.push(("shadows", shadowed.clone()));
    }
    facts.push(("kind", report.kind.clone()));
    facts.push(("version", report.version.to_string()));
    if let Some(need) = report.needs.first() {
        let others = match report.needs.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let cause = format!("{} because of {}{others}", need.version, need.field);
        facts.push(("needs", cause));
    }
    for (key, value) in &report.annotations {
        facts.push(("note", format!("{key}={value}")));
    }
    facts
}
