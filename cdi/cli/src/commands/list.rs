//! `cdi-gen list`: every device of the host's specs.

mod report;

use std::io::{self, Write};

use host_doctor::{BadNodes, NodeReport, group_bad_nodes};
use imex_cdi::Registry;

use self::report::{DeviceReport, ListReport};
use crate::args::List;
use crate::host_specs::{HostSpecs, describe_dir};
use crate::outcome::{Failure, Outcome};
use crate::output::{Report, print};
use crate::stderr::note;
use crate::style::Style;
use crate::table;

pub(super) fn run(args: List, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let List { specs, json } = args;
    let specs = HostSpecs::open(&specs)?;
    let registry = specs.registry();
    let list = ListReport::new(&registry, &specs.host());
    print(&list, json, stdout)?;
    if !json {
        note_problems(&list, &registry);
    }
    specs.check_dirs()?;
    Ok(if list.is_clean() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

impl Report for ListReport {
    fn write_text(&self, _: Style, output: &mut impl Write) -> io::Result<()> {
        table::write(
            ["DEVICE", "STATE", "VERSION", "HOST", "FILE"],
            self.devices.iter().map(row),
            output,
        )
    }
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
    // The worst of them: the table is for finding problems.
    let worst = nodes.iter().max_by_key(|node| node.state);
    let host = worst.map_or_else(String::new, NodeReport::host_side);
    [
        name.clone(),
        state.as_str().to_owned(),
        version.to_string(),
        host,
        file.clone(),
    ]
}

/// What the table has no row or no column for.
fn note_problems(report: &ListReport, registry: &Registry) {
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
    for BadNodes { file, message, fix } in group_bad_nodes(report.bad_nodes()) {
        note(&format!("{file}: {message}; {fix}"));
    }
    if report.devices.is_empty() {
        let dirs: Vec<String> = registry.dirs().iter().map(describe_dir).collect();
        note(&format!("no CDI device in {}", dirs.join(", ")));
    }
}
