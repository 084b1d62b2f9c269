//! The host's IMEX daemon, `nvidia-imex`: its service, its processes, its answer.

mod addresses;
pub(crate) mod config;
pub(crate) mod daemons;
mod expectation;
pub(crate) mod unit;

use std::path::Path;
use std::time::Duration;

use dra_common::error_chain;
use nvml_clique::{DriverRoot, HostImex, HostImexError};

use self::config::ImexConfig;
use self::daemons::{ImexDaemon, PROGRAM, RunningDaemon};
use self::unit::{ImexUnit, UnitStart};
use super::driver::with_host_names;
use crate::error_facts::ErrorFacts;
use crate::host::Host;
use crate::processes::all_are_seen;

/// The deadline of `nvidia-imex-ctl`.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The IMEX daemons of a host, on the host itself and in containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImexFacts {
    /// The systemd unit that starts it; `None` if it is not installed as a
    /// service.
    pub unit: Option<ImexUnit>,
    /// The program, on the host or in its driver's root; `None` if neither has it.
    pub program: Option<String>,
    /// The evidence that the host should run it: a kubelet plugin that leaves IMEX to the
    /// host. `None` also if unknown.
    pub expected_by: Option<String>,
    /// Whether a running kubelet plugin leaves IMEX to the IMEX daemon of this driver.
    pub driver_managed: bool,
    /// One process for each session with the driver: a process and its child share a session.
    pub daemons: Vec<ImexDaemon>,
    /// Whether there may be others, because not all processes of the host are visible.
    pub is_incomplete: bool,
    /// The configuration of each daemon; while none is running, that of an enabled unit.
    pub configs: Vec<ImexConfig>,
    /// The answer through the command socket; `None` if no socket was given.
    pub socket: Option<ImexSocket>,
}

/// The daemon's command socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImexSocket {
    /// Its path.
    pub path: String,
    /// Whether the daemon is ready.
    pub ready: Result<(), ErrorFacts>,
}

// === impl ImexFacts ===

impl ImexFacts {
    /// Reads the facts; runs the host's `nvidia-imex-ctl` if there is a `socket`.
    pub(crate) fn read(host: &Host, driver_root: &Path, socket: Option<&Path>) -> Self {
        let unit = ImexUnit::read(host);
        let daemons = daemons::find(host);
        Self {
            program: program(host, driver_root),
            expected_by: expectation::find(host),
            driver_managed: expectation::find_driver_managed(host).is_some(),
            is_incomplete: !all_are_seen(host),
            configs: configs(host, unit.as_ref(), &daemons),
            unit,
            daemons: daemons.into_iter().map(|daemon| daemon.facts).collect(),
            socket: socket.map(|socket| ImexSocket::read(host, socket)),
        }
    }

    /// Whether the host starts it, but it is not running, also not in a container.
    pub fn is_down(&self) -> bool {
        let start = self.unit.as_ref().map(|unit| unit.start);
        start == Some(UnitStart::Enabled) && self.daemons.is_empty() && !self.is_incomplete
    }
}

/// The path of `nvidia-imex`: in the driver roots from which daemons in pods take it, else on
/// the host itself.
fn program(host: &Host, driver_root: &Path) -> Option<String> {
    let root = DriverRoot::new(host.resolve_target(driver_root));
    let own = DriverRoot::new(host.root());
    let mut roots = root.with_nested().chain([own]);
    let program = roots.find_map(|root| root.find_tool(PROGRAM).ok())?;
    Some(host.host_name(&program))
}

/// Each running daemon has a configuration of its own. The unit's configuration counts only if
/// the unit is enabled and no daemon is running: that of a package is not filled in yet.
fn configs(host: &Host, unit: Option<&ImexUnit>, daemons: &[RunningDaemon]) -> Vec<ImexConfig> {
    let unit = unit.filter(|unit| unit.start == UnitStart::Enabled);
    match (daemons, unit) {
        ([], Some(unit)) => vec![ImexConfig::read_for_unit(host, &unit.path)],
        _ => daemons
            .iter()
            .map(|daemon| ImexConfig::read_for_daemon(host, daemon))
            .collect(),
    }
}

// === impl ImexSocket ===

impl ImexSocket {
    fn read(host: &Host, socket: &Path) -> Self {
        let imex = HostImex::new(DriverRoot::new(host.root()), socket);
        let ready = imex.check_ready(TIMEOUT).map_err(|error| ErrorFacts {
            code: error.code(),
            message: message(host, &error),
            hint: error.hint().to_owned(),
        });
        Self {
            path: socket.display().to_string(),
            ready,
        }
    }
}

/// The error with the host's own paths.
fn message(host: &Host, error: &HostImexError) -> String {
    let HostImexError::ToolMissing(missing) = error else {
        return error_chain(error);
    };
    let missing = with_host_names(host, missing.clone());
    error_chain(&HostImexError::ToolMissing(missing))
}
