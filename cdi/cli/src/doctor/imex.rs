//! The `nvidia-imex` that the operator runs on the host.

use std::path::Path;
use std::time::Duration;

use compute_domain_node::with_sources;
use nvml_clique::{DriverRoot, Fabric, HostImex};

use super::driver::Driver;
use super::files::Files;
use super::finding::{Checked, Finding};

const UNITS: [&str; 3] = [
    "/etc/systemd/system/nvidia-imex.service",
    "/usr/lib/systemd/system/nvidia-imex.service",
    "/lib/systemd/system/nvidia-imex.service",
];
const PROGRAM: &str = "nvidia-imex";
const NODES: &str = "/etc/nvidia-imex/nodes_config.cfg";
const CONFIG: &str = "/etc/nvidia-imex/config.cfg";

/// What nvidia-imex-ctl has to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// A node that is in no multi-node fabric needs no daemon.
pub(super) fn check(
    files: &Files,
    driver: &Driver,
    fabric: Option<&Fabric>,
    socket: Option<&Path>,
) -> Checked {
    let unit = files.first(&UNITS);
    let processes = files.processes();
    let runs = processes.iter().any(|process| process.name == PROGRAM);
    let needed = driver.module.is_some() && !matches!(fabric, Some(Fabric::NoClique(_)));
    let mut findings = Vec::new();
    findings.extend(of_process(unit, runs, needed));
    if unit.is_some() || runs {
        findings.extend(of_nodes(files));
    }
    let mut summary = match (unit.is_some(), runs) {
        (_, true) => "running".to_owned(),
        (true, false) => "installed, not running".to_owned(),
        (false, false) => "none".to_owned(),
    };
    if let Some(socket) = socket {
        let host = HostImex::new(DriverRoot::new(files.root_path()), socket);
        match host.ready(LIMIT) {
            Ok(()) => summary.push_str(", READY"),
            Err(error) => findings.push(Finding::error(
                error.code(),
                socket.display().to_string(),
                with_sources(&error),
                error.hint(),
            )),
        }
    }
    Checked::new(summary, findings)
}

fn of_process(unit: Option<&str>, runs: bool, needed: bool) -> Option<Finding> {
    match (unit, runs) {
        (None, false) if needed => Some(Finding::warning(
            "host-imex-absent",
            PROGRAM,
            "no unit file and no process: memory is shared with no other node",
            "install the package nvidia-imex of the driver's version, and enable its service",
        )),
        (Some(unit), false) => Some(Finding::error(
            "host-imex-not-running",
            unit,
            "the service is installed, and no process of it runs",
            "systemctl enable --now nvidia-imex; journalctl -u nvidia-imex and /var/log/nvidia-imex.log say why if it ends",
        )),
        (_, true) | (None, false) => None,
    }
}

/// The peers, one for each line.
fn of_nodes(files: &Files) -> Option<Finding> {
    let config = files.text_if_any(CONFIG).unwrap_or_default();
    let named = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "IMEX_NODE_CONFIG_FILE").then_some(value.trim())
    });
    let path = named.filter(|path| !path.is_empty()).unwrap_or(NODES);
    let text = files.text_if_any(path).unwrap_or_default();
    let is_node = |line: &str| !line.is_empty() && !line.starts_with('#');
    let any = text.lines().map(str::trim).any(is_node);
    (!any).then(|| {
        Finding::error(
            "host-imex-no-nodes",
            path,
            "it lists no node: the daemon has no domain",
            format!("write the addresses of the domain's nodes into {path}, one for each line, and restart nvidia-imex"),
        )
    })
}
