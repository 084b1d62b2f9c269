//! The `nvidia-imex` that the operator runs on the host.

mod config;
mod daemons;
mod unit;

use std::path::Path;
use std::time::Duration;

use compute_domain_node::error_chain;
use nvml_clique::{DriverRoot, Fabric, HostImex, HostImexError};

use self::config::Config;
use self::daemons::{Daemon, PROGRAM};
use super::driver::Driver;
use crate::area::AreaReport;
use crate::files::HostFiles;
use crate::finding::Finding;

/// What nvidia-imex-ctl has to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Whether the host has it, and none runs, not in a container either.
pub(super) fn is_down(files: &HostFiles) -> bool {
    unit::file(files).is_some() && daemons::find(files).is_empty()
}

/// A node that is in no multi-node fabric needs no daemon.
pub(super) fn check(
    files: &HostFiles,
    driver: &Driver,
    fabric: Option<&Fabric>,
    socket: Option<&Path>,
) -> AreaReport {
    let unit = unit::file(files);
    let daemons = daemons::find(files);
    let needed = driver.module.is_some() && !matches!(fabric, Some(Fabric::NoClique(_)));
    let mut findings = Vec::new();
    findings.extend(daemons::of_sessions(&daemons));
    // Without nodes it ends as soon as it is started.
    findings.extend(of_configs(files, unit, &daemons));
    let process = of_process(unit, !daemons.is_empty(), needed, fabric.is_some());
    findings.extend(process);
    let mut summary = summary(unit, &daemons).to_owned();
    if let Some(socket) = socket {
        let host = HostImex::new(DriverRoot::new(files.root().as_path()), socket);
        match host.check_ready(LIMIT) {
            Ok(()) => summary.push_str(", READY"),
            Err(error) => findings.push(Finding::error(
                error.code(),
                socket.display().to_string(),
                said(files, &error),
                error.hint(),
            )),
        }
    }
    AreaReport::new(summary, findings)
}

fn summary(unit: Option<&str>, daemons: &[Daemon]) -> &'static str {
    match (unit, daemons) {
        (_, [only]) if only.is_in_container() => "running in a container",
        (_, [_, ..]) => "running",
        (Some(_), []) => "installed, not running",
        (None, []) => "none",
    }
}

/// Each that runs has its own; without any, the service's counts.
fn of_configs(files: &HostFiles, unit: Option<&str>, daemons: &[Daemon]) -> Vec<Finding> {
    let of_daemon = |daemon: &Daemon| {
        let hosts = Some(files).filter(|_| daemon.sees_host);
        let own = daemon.files.as_ref().or(hosts);
        Config::of_daemon(daemon).map_or_else(Some, |config| config.of_nodes(own))
    };
    match (daemons, unit) {
        ([], Some(unit)) => {
            let config = Config::of_unit(files, unit);
            let found = config.map_or_else(Some, |config| config.of_nodes(Some(files)));
            found.into_iter().collect()
        }
        _ => daemons.iter().filter_map(of_daemon).collect(),
    }
}

/// What the error says, with the paths that the host has for its files.
fn said(files: &HostFiles, error: &HostImexError) -> String {
    let HostImexError::ToolMissing(missing) = error else {
        return error_chain(error);
    };
    let mut missing = missing.clone();
    missing.root = files.host_name(&missing.root).into();
    for rejected in &mut missing.rejected {
        rejected.path = files.host_name(&rejected.path).into();
    }
    error_chain(&HostImexError::ToolMissing(missing))
}

fn of_process(unit: Option<&str>, runs: bool, needed: bool, asked: bool) -> Option<Finding> {
    match (unit, runs) {
        (None, false) if needed => Some(Finding::warning(
            "host-imex-absent",
            PROGRAM,
            if asked {
                "no unit file and no process: memory is shared with no other node"
            } else {
                "no unit file and no process: memory is shared with no other node. A node outside of any NVLink fabric needs neither; whether this is one is not known, since NVML was not asked"
            },
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
