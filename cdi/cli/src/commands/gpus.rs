//! `cdi-gen gpus`: lists a host's GPUs with their facts and problems.

use std::io::{self, Write};

use gpu_inventory::{Fact, GpuFacts, Inventory, architecture, read};
use host_doctor::{Finding, Severity, gpu_findings, gpu_sources};
use serde::Serialize;

use crate::args::Gpus;
use crate::finding_text::write_findings;
use crate::host_specs::open_host;
use crate::outcome::{Failure, Outcome};
use crate::output::{Report, print, write_properties, write_table};
use crate::terminal::{Style, note};

/// In JSON it is an inventory with more members: the mock of NVML loads it.
#[derive(Debug, Serialize)]
struct GpusReport {
    schema: &'static str,
    #[serde(flatten)]
    inventory: Inventory,
    findings: Vec<Finding>,
}

const HEADINGS: [&str; 8] = [
    "ADDRESS",
    "MINOR",
    "NAME",
    "MEMORY",
    "ARCHITECTURE",
    "MIG",
    "DRIVER",
    "UUID",
];

pub(super) fn run(args: &Gpus, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let host = open_host(&args.root)?;
    let inventory = read(&gpu_sources(&host, &args.driver_root));
    let findings = gpu_findings(&inventory);
    let is_clean = findings.iter().all(|it| it.severity == Severity::Info);
    if inventory.gpus.is_empty() && findings.is_empty() {
        let root = args.root.display();
        note(&format!(
            "{root} has no NVIDIA GPU in /proc/driver/nvidia/gpus, /sys/bus/pci/devices or NVML; if the host should have a GPU, pass the mount point of its root with --root"
        ));
    }
    let report = GpusReport {
        schema: "cdi-gen/gpus/v1",
        inventory,
        findings,
    };
    print(&report, args.json, stdout)?;
    Ok(Outcome::of(is_clean))
}

impl Report for GpusReport {
    fn write_text(&self, style: Style, output: &mut impl Write) -> io::Result<()> {
        let driver = &self.inventory.driver;
        let cuda = |version: &u32| format!("{}.{}", version / 1000, version % 1000 / 10);
        write_properties(
            [
                ("module", shown(&driver.module, Clone::clone)),
                ("nvml", shown(&driver.nvml, Clone::clone)),
                ("cuda", shown(&driver.cuda, cuda)),
            ],
            output,
        )?;
        writeln!(output)?;
        let rows = self.inventory.gpus.iter().map(row);
        write_table(HEADINGS, rows, output)?;
        if !self.findings.is_empty() {
            writeln!(output)?;
        }
        write_findings(&self.findings, style, output)
    }
}

fn row(gpu: &GpuFacts) -> [String; 8] {
    let mig = |is_enabled: bool| if is_enabled { "on" } else { "off" };
    [
        shown(&gpu.pci, ToString::to_string),
        shown(&gpu.minor, ToString::to_string),
        shown(&gpu.name, Clone::clone),
        shown(&gpu.memory, |bytes| format!("{} MiB", bytes >> 20)),
        shown(&gpu.architecture, |it| architecture(*it).to_owned()),
        shown(&gpu.mig, |it| mig(it.enabled).to_owned()),
        shown(&gpu.pci_driver, Clone::clone),
        shown(&gpu.uuid, Clone::clone),
    ]
}

/// The value, `?` if it cannot be read, or nothing.
fn shown<T>(fact: &Fact<T>, show: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => show(value),
        Fact::Failed(_) => "?".to_owned(),
        Fact::Absent => String::new(),
    }
}
