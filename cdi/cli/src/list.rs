//! `cdi-gen list`: every device of the host's specs.

mod report;

use std::io::{self, Write};

use self::report::{DeviceReport, Report};
use crate::args::List;
use crate::failure::{Failure, Outcome, note};
use crate::table;

pub(crate) use self::report::VersionReport;

pub(crate) fn run(args: List, output: &mut impl Write) -> Result<Outcome, Failure> {
    let List { specs, json } = args;
    let registry = specs.registry()?;
    let report = Report::of(&registry, &specs.root()?);
    if json {
        crate::printable::write_json(&report, output).map_err(Failure::Output)?;
    } else {
        write_table(&report, output).map_err(Failure::Output)?;
        tell_what_hides_devices(&report);
    }
    Ok(if report.is_clean() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

fn write_table(report: &Report, output: &mut impl Write) -> io::Result<()> {
    table::write(
        ["DEVICE", "STATE", "VERSION", "HOST", "FILE"],
        report.devices.iter().map(row),
        output,
    )
}

fn row(device: &DeviceReport) -> [String; 5] {
    let DeviceReport {
        name,
        file,
        priority: _,
        state,
        shadowed_by: _,
        conflicts_with: _,
        version,
        nodes,
    } = device;
    // The worst of them: the table is for finding what is wrong.
    let worst = nodes.iter().max_by_key(|node| node.state);
    let host = worst.map_or_else(String::new, |node| match &node.found {
        Some(found) if node.state.is_bad() => format!("{}: {found}", node.state.word()),
        _ => node.state.word().to_owned(),
    });
    [
        name.clone(),
        state.word().to_owned(),
        version.to_string(),
        host,
        file.clone(),
    ]
}

/// What the table cannot show, because it has no device.
fn tell_what_hides_devices(report: &Report) {
    for dir in &report.dirs {
        if let Some(error) = &dir.error {
            note(&format!("{}; {}", error.message, error.fix));
        }
    }
    for file in &report.files {
        if let Some(error) = &file.error {
            note(&format!("{}; {}", error.message, error.fix));
        }
    }
    if report.devices.is_empty() {
        let dirs: Vec<&str> = report.dirs.iter().map(|dir| dir.path.as_str()).collect();
        note(&format!("no CDI device in {}", dirs.join(", ")));
    }
}
