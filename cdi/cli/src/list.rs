//! `cdi-gen list`: every device of the host's specs.

mod report;

use std::io::{self, Write};

use self::report::{DeviceReport, DirReport, Report};
use crate::args::List;
use crate::failure::{Failure, Outcome, note};
use crate::host_node::{NodeReport, told};
use crate::table;

pub(crate) use self::report::VersionReport;

pub(crate) fn run(args: List, output: &mut impl Write) -> Result<Outcome, Failure> {
    let List { specs, json } = args;
    let registry = specs.registry()?;
    let report = Report::of(&registry, &specs.host()?);
    if json {
        crate::printable::write_json(&report, output).map_err(Failure::Output)?;
    } else {
        write_table(&report, output)
            .and_then(|()| output.flush())
            .map_err(Failure::Output)?;
        tell_what_is_wrong(&report);
    }
    specs.refuse_absent()?;
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
    let host = worst.map_or_else(String::new, NodeReport::host_side);
    [
        name.clone(),
        state.word().to_owned(),
        version.to_string(),
        host,
        file.clone(),
    ]
}

fn dir(dir: &DirReport) -> String {
    match dir.state {
        "absent" => format!("{} (does not exist)", dir.path),
        _ => dir.path.clone(),
    }
}

/// What the table cannot show, because it has no device, or no place for it.
fn tell_what_is_wrong(report: &Report) {
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
    for (file, message, fix) in told(report.bad_nodes()) {
        note(&format!("{file}: {message}; {fix}"));
    }
    if report.devices.is_empty() {
        let dirs: Vec<String> = report.dirs.iter().map(dir).collect();
        note(&format!("no CDI device in {}", dirs.join(", ")));
    }
}
