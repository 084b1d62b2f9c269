//! The IMEX settings: resolved once at start, the same way in both daemons.

mod error;

use std::fmt;
use std::path::PathBuf;

pub use error::SettingsError;

use crate::gates::{FeatureGates, Gate};

/// The options as they were typed. The empty string is the same as not set, because a chart
/// renders an unset value as `""`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImexOptions<'a> {
    /// Chart `featureGates`, `--feature-gates`, `FEATURE_GATES`.
    pub feature_gates: &'a str,
    /// Chart `resources.computeDomains.imex.mode`, `--imex-mode`, `IMEX_MODE`.
    pub mode: &'a str,
    /// Chart `resources.computeDomains.imex.isolation`, `--imex-isolation`, `IMEX_ISOLATION`.
    pub isolation: &'a str,
    /// Chart `resources.computeDomains.imex.hostSocketPath`, `--imex-host-socket-path`,
    /// `IMEX_HOST_SOCKET_PATH`.
    pub host_socket_path: &'a str,
}

/// What the options mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who runs the IMEX daemons.
    pub mode: Mode,
    /// What keeps `ComputeDomains` of one fabric apart.
    pub isolation: Isolation,
    /// Host path of the `nvidia-imex` control socket; `None`: the host daemon is not looked at.
    pub host_socket_path: Option<PathBuf>,
    /// Every gate's value, after forcing.
    pub gates: FeatureGates,
    /// Gates whose value the mode changed.
    pub forced: Vec<ForcedGate>,
    /// Accepted, but worth a log line.
    pub warnings: Vec<SettingsWarning>,
}

/// Who runs the IMEX daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The operator runs `nvidia-imex` on the hosts.
    HostManaged,
}

/// What keeps `ComputeDomains` of one fabric apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Nothing: every workload gets channel 0.
    None,
}

/// A gate whose value the mode decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedGate {
    /// The gate.
    pub gate: Gate,
    /// The value it has now.
    pub value: bool,
}

/// Something accepted that its user may understand differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsWarning {
    /// `isolation=domain`, Go's name for no isolation in host-managed mode.
    IsolationDomain,
}

/// Both belong to daemons in pods, of which host-managed mode has none.
const FORCED_OFF: [Gate; 2] = [Gate::IMEXDaemonsWithDNSNames, Gate::ComputeDomainCliques];

// === impl ImexOptions ===

impl ImexOptions<'_> {
    /// Resolves the options. The mode is judged first, then the isolation, and the gates last:
    /// forcing comes before their cross-check, so that the one gate suffices.
    pub fn resolve(&self) -> Result<Settings, SettingsError> {
        let mut gates: FeatureGates = self.feature_gates.parse()?;
        let mode = resolve_mode(self.mode, gates.enabled(Gate::HostManagedIMEX))?;
        let (isolation, warnings) = resolve_isolation(self.isolation)?;
        let host_socket_path = resolve_socket(self.host_socket_path)?;
        let forced = FORCED_OFF
            .into_iter()
            .filter(|gate| gates.force(*gate, false))
            .map(|gate| ForcedGate { gate, value: false })
            .collect();
        gates.validate()?;
        Ok(Settings {
            mode,
            isolation,
            host_socket_path,
            gates,
            forced,
            warnings,
        })
    }
}

fn resolve_mode(mode: &str, host_managed_gate: bool) -> Result<Mode, SettingsError> {
    match (mode, host_managed_gate) {
        ("" | "hostManaged", true) => Ok(Mode::HostManaged),
        ("hostManaged", false) => Err(SettingsError::ModeNeedsGate),
        ("" | "driverManaged", _) => Err(SettingsError::DriverManagedNotBuilt),
        (other, _) => Err(SettingsError::UnknownMode {
            value: other.to_owned(),
        }),
    }
}

fn resolve_isolation(isolation: &str) -> Result<(Isolation, Vec<SettingsWarning>), SettingsError> {
    match isolation {
        "" | "none" => Ok((Isolation::None, Vec::new())),
        "domain" => Ok((Isolation::None, vec![SettingsWarning::IsolationDomain])),
        "channel" => Err(SettingsError::ChannelIsolationNotBuilt),
        other => Err(SettingsError::UnknownIsolation {
            value: other.to_owned(),
        }),
    }
}

fn resolve_socket(path: &str) -> Result<Option<PathBuf>, SettingsError> {
    if path.is_empty() {
        return Ok(None);
    }
    let path = PathBuf::from(path);
    if path.is_absolute() {
        Ok(Some(path))
    } else {
        Err(SettingsError::RelativeSocketPath { path })
    }
}

// === impl Mode, Isolation, ForcedGate, SettingsWarning ===

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostManaged => f.write_str("hostManaged"),
        }
    }
}

impl Isolation {
    /// What the value means for workloads, for the log at start.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::None => {
                "every workload gets channel 0: ComputeDomains of one fabric are not isolated from each other"
            }
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
        }
    }
}

impl ForcedGate {
    /// Why the mode decides this gate.
    pub fn reason(&self) -> &'static str {
        "host-managed mode runs no IMEX daemon pods, to which this gate belongs"
    }
}

impl fmt::Display for SettingsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsolationDomain => f.write_str(
                "imex.isolation=\"domain\" is taken as \"none\": in host-managed mode nothing isolates ComputeDomains",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
