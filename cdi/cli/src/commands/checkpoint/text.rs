//! A [`CheckpointReport`] for people: a few lines on the file, then a table of
//! the claims.

use std::io::{self, Write};

use super::report::{Boot, CheckpointReport, Claim, ClaimState};
use crate::output::{EMPTY, Report, write_properties, write_table};
use crate::terminal::Style;

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
        write_properties(properties(self), output)?;
        if self.claims.is_empty() {
            return Ok(());
        }
        writeln!(output)?;
        write_table(HEADINGS, self.claims.iter().map(row), output)?;
        let mut unprepared = self.claims.iter().filter(|it| is_allocated_only(it));
        if unprepared.any(|it| it.state == ClaimState::Completed) {
            writeln!(
                output,
                "\n(device): allocated; only the driver that wrote this checkpoint can tell whether the device is prepared"
            )?;
        } else if self.claims.iter().any(is_allocated_only) {
            writeln!(output, "\n(device): allocated, not prepared")?;
        }
        Ok(())
    }
}

fn properties(report: &CheckpointReport) -> Vec<(&'static str, String)> {
    let mut properties = vec![("file", report.file.clone())];
    if let Some(damage) = &report.damage {
        let survivors = match damage.survivors {
            "all" => "all claims are still readable",
            "some" => "claims may be missing from the list below",
            _ => "none of the claims can be read",
        };
        properties.push(("damaged", format!("{}; {survivors}", damage.message)));
        properties.push(("fix", damage.fix.to_owned()));
    }
    let foreign = report.foreign_drivers.iter().map(String::as_str);
    let drivers: Vec<&str> = report.driver.into_iter().chain(foreign).collect();
    if !drivers.is_empty() {
        properties.push(("driver", drivers.join(", ")));
    }
    if let Some(layout) = report.layout {
        properties.push(("layout", describe(layout).to_owned()));
    }
    let recorded = report.boot_id.as_deref().unwrap_or(EMPTY);
    let boot = match report.boot {
        Boot::Same => "this host's current boot",
        Boot::Other => "not this host's current boot",
        Boot::NotRecorded => "not recorded",
        Boot::Lost => "lost because of the damage",
        Boot::HostUnknown => "this host's boot id cannot be read",
    };
    properties.push(("boot id", format!("{recorded} ({boot})")));
    properties.push(("claims", report.claims.len().to_string()));
    properties
}

/// A layout's content, and the releases that wrote it.
fn describe(layout: &'static str) -> &'static str {
    match layout {
        "v2" => "V1 and V2",
        "v2-without-boot-id" => {
            "V1 and V2 without a boot id (written by NVIDIA's DRA driver 25.8 to 25.12)"
        }
        "v1" => "V1 (written by NVIDIA's DRA driver 25.3.0 to 25.3.2)",
        "v1-rc.2" => "V1 (written by NVIDIA's DRA driver 25.3.0-rc.2)",
        newer => newer,
    }
}

/// Whether the claim has allocated devices, but no prepared one.
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
        (None, None) => String::new(),
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
        claim.aborted_at.clone().unwrap_or_default(),
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
    seen.join(",")
}
