//! A [`Report`] for a terminal: a few lines on the file, then a line for each
//! claim, in columns that `grep` and `awk` can use too.

use std::io::{self, Write};

use dra_checkpoint::Layout;

use super::report::{Boot, ByCode, Claim, ClaimState, Report};
use crate::table::{self, NOTHING};

const HEADINGS: [&str; COLUMNS] = [
    "CLAIM UID",
    "STATE",
    "NAMESPACE/NAME",
    "DEVICES",
    "POOL",
    "ABORTED AT",
    "CDI IDS",
];
const COLUMNS: usize = 7;

type Row = [String; COLUMNS];

pub(super) fn write(report: &Report, output: &mut impl Write) -> io::Result<()> {
    table::write_facts(header(report), output)?;
    if report.claims.is_empty() {
        return Ok(());
    }
    writeln!(output)?;
    table::write(HEADINGS, report.claims.iter().map(row), output)?;
    if report.claims.iter().any(holds_nothing) {
        writeln!(output, "\n(device): allocated, not held")?;
    }
    Ok(())
}

fn header(report: &Report) -> Vec<(&'static str, String)> {
    let Report {
        schema: _,
        file,
        layout,
        boot_id,
        boot,
        damage,
        claims,
    } = report;
    let mut lines = vec![("file", file.clone())];
    if let Some(damage) = damage {
        let survivors = match damage.survivors {
            "all" => "every claim survives",
            "some" => "claims may be missing below",
            _ => "no claim survives",
        };
        lines.push(("damaged", format!("{}; {survivors}", damage.message)));
        lines.push(("fix", damage.fix.to_owned()));
    }
    if let Some(ByCode(layout)) = layout {
        lines.push(("layout", writers(*layout).to_owned()));
    }
    let recorded = boot_id.as_deref().unwrap_or(NOTHING);
    let boot = match boot {
        Boot::Same => "this host's current boot",
        Boot::Other => "not this host's current boot",
        Boot::NotRecorded => "not recorded",
        Boot::Lost => "lost with the damage",
        Boot::HostUnknown => "this host does not tell its own",
    };
    lines.push(("boot id", format!("{recorded} ({boot})")));
    lines.push(("claims", claims.len().to_string()));
    lines
}

/// A layout by what is in it, and by the releases that wrote it.
fn writers(layout: Layout) -> &'static str {
    match layout {
        Layout::V2 => "V1 and V2",
        Layout::V2WithoutBootId => "V1 and V2 without a boot id (25.8 to 25.12)",
        Layout::V1 => "V1 (25.3.0 to 25.3.2)",
        Layout::V1Rc2 => "V1 of 25.3.0-rc.2",
        newer => newer.code(),
    }
}

/// Whether its devices are shown although it does not hold them.
fn holds_nothing(claim: &Claim) -> bool {
    claim.devices.is_empty() && !claim.allocated.is_empty()
}

fn row(claim: &Claim) -> Row {
    let state = match claim.state {
        ClaimState::Started => "Started",
        ClaimState::Completed => "Completed",
        ClaimState::Aborted => "Aborted",
    };
    let (devices, pools) = if holds_nothing(claim) {
        let allocated = claim.allocated.iter();
        (
            list(allocated.clone().map(|a| format!("({})", a.device))),
            list(allocated.map(|a| a.pool.clone())),
        )
    } else {
        let devices = claim.devices.iter();
        (
            list(devices.clone().map(|d| d.device.clone())),
            list(devices.filter_map(|d| d.pool.clone())),
        )
    };
    let ids = claim.devices.iter().flat_map(|d| d.cdi_device_ids.clone());
    let name = match (&claim.namespace, &claim.name) {
        (None, None) => NOTHING.to_owned(),
        (namespace, name) => format!(
            "{}/{}",
            namespace.as_deref().unwrap_or(NOTHING),
            name.as_deref().unwrap_or(NOTHING)
        ),
    };
    [
        claim.uid.clone(),
        state.to_owned(),
        name,
        devices,
        pools,
        claim
            .aborted_at
            .clone()
            .unwrap_or_else(|| NOTHING.to_owned()),
        list(ids),
    ]
}

/// Each once, in the order they come.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    if seen.is_empty() {
        NOTHING.to_owned()
    } else {
        seen.join(",")
    }
}
