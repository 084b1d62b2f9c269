//! `cdi-gen list`: the devices of the host's specs.

mod claims;
mod report;

use std::collections::BTreeSet;
use std::io::{self, Write};

use host_doctor::facts::RecordFacts;
use host_doctor::{BadNodes, NodeReport, PathState, and_more, group_bad_nodes, number_list};
use imex_cdi::Registry;

use self::claims::ClaimRecords;
use self::report::{DeviceReport, ListReport};
use crate::args::List;
use crate::host_specs::{HostSpecs, describe_dir};
use crate::outcome::{Failure, Outcome};
use crate::output::{EMPTY, Report, print, write_table};
use crate::selection;
use crate::terminal::{Style, note};

pub(super) fn run(args: &List, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let specs = HostSpecs::open(&args.specs)?;
    let (registry, host) = (specs.registry(), &specs.host);
    let kubelet_root = args.kubelet.path.to_string_lossy();
    let records = ClaimRecords::read(&registry, host, &kubelet_root);
    let list = ListReport::new(&registry, host, &records, &args.names);
    print(&list, args.json, stdout)?;
    if !args.json {
        note_problems(&list, &registry, args.names.is_empty());
        if let Some(problem) = records.problem() {
            note(&problem);
        }
    }
    specs.check_dirs()?;
    selection::check(&registry, &args.names)?;
    Ok(Outcome::of(list.is_clean()))
}

impl Report for ListReport<'_> {
    fn write_text(&self, _: Style, output: &mut impl Write) -> io::Result<()> {
        write_table(
            [
                "DEVICE", "STATE", "CHANNEL", "DOMAIN", "VERSION", "HOST", "FILE",
            ],
            self.devices.iter().map(row),
            output,
        )
    }
}

fn row(device: &DeviceReport<'_>) -> [String; 7] {
    // Show the worst node: the table is for finding problems.
    let worst = device.nodes.iter().max_by_key(|node| node.state);
    let host = match worst {
        Some(node) if node.state.is_bad() || !device.lacks_paths => node.host_side(),
        _ if device.lacks_paths => PathState::Missing.as_str().to_owned(),
        _ => String::new(),
    };
    let record = device
        .claim
        .as_ref()
        .and_then(|claim| claim.record.as_ref());
    let domains = record.map(|record| Vec::from_iter(record.domains()).join(","));
    [
        device.name.to_string(),
        device.state.as_str().to_owned(),
        channels(&device.nodes, record),
        domains.unwrap_or_default(),
        device.version.to_string(),
        host,
        device.file.to_string(),
    ]
}

/// The channels that a container gets, and those of the claim's record if they differ.
fn channels(nodes: &[NodeReport], record: Option<&RecordFacts>) -> String {
    let opened = nodes.iter().filter_map(|node| node.channel);
    let opened: BTreeSet<u32> = opened.filter_map(|it| u32::try_from(it).ok()).collect();
    let shown = match number_list(&opened) {
        none if none.is_empty() => EMPTY.to_owned(),
        shown => shown,
    };
    let recorded = record.filter(|it| !it.channels.is_empty() && !it.agrees_with(&opened));
    match recorded {
        Some(record) => format!("{shown} (recorded {})", number_list(&record.numbers())),
        None => shown,
    }
}

/// Reports problems that the table has no row or column for.
fn note_problems(report: &ListReport<'_>, registry: &Registry, all: bool) {
    let of_dirs = report.dirs.iter().filter_map(|dir| dir.error.as_ref());
    let of_files = report.files.iter().filter_map(|file| file.error.as_ref());
    for error in of_dirs.chain(of_files) {
        note(&format!("{}; {}", error.message, error.fix));
    }
    for BadNodes { file, message, fix } in group_bad_nodes(report.bad_nodes()) {
        note(&format!("{file}: {message}; {fix}"));
    }
    for file in report.files_without_paths() {
        if let Some((first, others)) = file.missing_paths.split_first() {
            let (message, more) = (first.message(), and_more(others.len()));
            note(&format!("{}: {message}{more}; {}", file.path, file.rewrite));
        }
    }
    if all && report.devices.is_empty() {
        let dirs: Vec<String> = registry.dirs().iter().map(describe_dir).collect();
        note(&format!("no CDI device in {}", dirs.join(", ")));
    }
}
