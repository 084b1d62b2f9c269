//! A [`CheckpointReport`] for people: a few lines on the file, then a table of
//! the claims.

use std::io::{self, Write};

use dra_checkpoint::Layout;

use super::report::{Boot, ByCode, CheckpointReport, Claim, ClaimState};
use crate::output::Report;
use crate::style::Style;
use crate::table::{self, EMPTY};

const HEADINGS: [&str; COLUMNS] = [
    "CLAIM UID",
    "STATE",
    "NAMESPACE/NAME",
    "DEVICES",
    "CHANNEL",
    "DOMAIN",
    "POOL",
    "ABORTED AT",
    "CDI IDS",
];
const COLUMNS: usize = 9;

type Row = [String; COLUMNS];

impl Report for CheckpointReport {
    fn write_text(&self, _: Style, output: &mut impl Write) -> io::Result<()> {
        table::write_properties(properties(self), output)?;
        if self.claims.is_empty() {
            return Ok(());
        }
        writeln!(output)?;
        table::write(HEADINGS, self.claims.iter().map(row), output)?;
        if !self.foreign_drivers.is_empty() {
            writeln!(
                output,
                "\n(device): allocated; what is prepared of it only its driver can read"
            )?;
        } else if self.claims.iter().any(is_allocated_only) {
            writeln!(output, "\n(device): allocated, not prepared")?;
        }
        Ok(())
    }
}

fn properties(report: &CheckpointReport) -> Vec<(&'static str, String)> {
    let CheckpointReport {
        schema: _,
        file,
        layout,
        boot_id,
        boot,
        damage,
        foreign_drivers,
        claims,
    } = report;
    let mut properties = vec![("file", file.clone())];
    if let Some(damage) = damage {
        let survivors = match damage.survivors {
            "all" => "every claim survives",
            "some" => "claims may be missing below",
            _ => "no claim survives",
        };
        properties.push(("damaged", format!("{}; {survivors}", damage.message)));
        properties.push(("fix", damage.fix.to_owned()));
    }
    if !foreign_drivers.is_empty() {
        properties.push(("driver", foreign_drivers.join(", ")));
    }
    if let Some(ByCode(layout)) = layout {
        properties.push(("layout", describe(*layout).to_owned()));
    }
    let recorded = boot_id.as_deref().unwrap_or(EMPTY);
    let boot = match boot {
        Boot::Same => "this host's current boot",
        Boot::Other => "not this host's current boot",
        Boot::NotRecorded => "not recorded",
        Boot::Lost => "lost with the damage",
        Boot::HostUnknown => "this host's boot id cannot be read",
    };
    properties.push(("boot id", format!("{recorded} ({boot})")));
    properties.push(("claims", claims.len().to_string()));
    properties
}

/// A layout's content, and the releases that wrote it.
fn describe(layout: Layout) -> &'static str {
    match layout {
        Layout::V2 => "V1 and V2",
        Layout::V2WithoutBootId => "V1 and V2 without a boot id (25.8 to 25.12)",
        Layout::V1 => "V1 (25.3.0 to 25.3.2)",
        Layout::V1Rc2 => "V1 of 25.3.0-rc.2",
        newer => newer.code(),
    }
}

/// Whether devices are allocated to it, but none is prepared.
fn is_allocated_only(claim: &Claim) -> bool {
    claim.devices.is_empty() && !claim.allocated.is_empty()
}

fn row(claim: &Claim) -> Row {
    let state = match claim.state {
        ClaimState::Started => "Started",
        ClaimState::Completed => "Completed",
        ClaimState::Aborted => "Aborted",
    };
    let (devices, pools) = if is_allocated_only(claim) {
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
    let channels = claim.devices.iter().filter_map(|d| d.channel);
    let domains = claim.devices.iter().map(|d| d.compute_domain.clone());
    let ids = claim.devices.iter().flat_map(|d| d.cdi_device_ids.clone());
    let name = match (&claim.namespace, &claim.name) {
        (None, None) => EMPTY.to_owned(),
        (namespace, name) => format!(
            "{}/{}",
            namespace.as_deref().unwrap_or(EMPTY),
            name.as_deref().unwrap_or(EMPTY)
        ),
    };
    [
        claim.uid.clone(),
        state.to_owned(),
        name,
        devices,
        list(channels.map(|channel| channel.to_string())),
        list(domains),
        pools,
        claim.aborted_at.clone().unwrap_or_else(|| EMPTY.to_owned()),
        list(ids),
    ]
}

/// Each item once, in the order of its first occurrence.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    if seen.is_empty() {
        EMPTY.to_owned()
    } else {
        seen.join(",")
    }
}
