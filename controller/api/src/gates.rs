//! Feature gates: every gate that the Go driver knows, parsed as Go parses them.
//!
//! A chart hands one string to all components, and a Go component passes every gate on, so gates
//! that only the GPU half acts on are known and checked here too.

mod error;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use error::GateError;

/// One gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the names are the Go driver's documented gates; those we act on are described"
)]
pub enum Gate {
    /// Switches every alpha gate that is not named itself.
    AllAlpha,
    /// Switches every beta gate that is not named itself.
    AllBeta,
    /// Daemons meet in `ComputeDomainClique` objects. Forced off in host-managed mode.
    ComputeDomainCliques,
    ConsumableShares,
    ContextualLogging,
    CrashOnNVLinkFabricErrors,
    DRAListTypeAttributes,
    DeviceMetadata,
    DynamicMIG,
    FabricManagerPartitioning,
    /// The operator runs `nvidia-imex` on the hosts. Also spelled `HostManagedIMEXDaemon`.
    HostManagedIMEX,
    /// Daemons find each other by DNS name. Forced off in host-managed mode.
    IMEXDaemonsWithDNSNames,
    LoggingAlphaOptions,
    LoggingBetaOptions,
    MPSSupport,
    NVMLDeviceHealthCheck,
    PassthroughSupport,
    TimeSlicingSettings,
}

/// Decides the default, and which group switch a gate follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Off by default, follows `AllAlpha`.
    Alpha,
    /// On by default, follows `AllBeta`.
    Beta,
    /// `AllAlpha` and `AllBeta` themselves: off by default.
    Group,
}

/// What was set by name; everything else has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    set: BTreeMap<Gate, bool>,
}

/// The second spelling of [`Gate::HostManagedIMEX`]: the one that Go released.
const HOST_MANAGED_ALIAS: &str = "HostManagedIMEXDaemon";

/// In the order of their names, which is the order they are printed in.
const GATES: [Gate; 18] = [
    Gate::AllAlpha,
    Gate::AllBeta,
    Gate::ComputeDomainCliques,
    Gate::ConsumableShares,
    Gate::ContextualLogging,
    Gate::CrashOnNVLinkFabricErrors,
    Gate::DRAListTypeAttributes,
    Gate::DeviceMetadata,
    Gate::DynamicMIG,
    Gate::FabricManagerPartitioning,
    Gate::HostManagedIMEX,
    Gate::IMEXDaemonsWithDNSNames,
    Gate::LoggingAlphaOptions,
    Gate::LoggingBetaOptions,
    Gate::MPSSupport,
    Gate::NVMLDeviceHealthCheck,
    Gate::PassthroughSupport,
    Gate::TimeSlicingSettings,
];

/// `first` cannot be on while `second` is.
const EXCLUSIVE: [(Gate, Gate); 4] = [
    (Gate::DynamicMIG, Gate::PassthroughSupport),
    (Gate::DynamicMIG, Gate::NVMLDeviceHealthCheck),
    (Gate::DynamicMIG, Gate::MPSSupport),
    (Gate::PassthroughSupport, Gate::NVMLDeviceHealthCheck),
];

/// `first` cannot be on unless `second` is.
const REQUIRED: [(Gate, Gate); 2] = [
    (Gate::ComputeDomainCliques, Gate::IMEXDaemonsWithDNSNames),
    (Gate::DeviceMetadata, Gate::PassthroughSupport),
];

// === impl Gate ===

impl Gate {
    /// The gate's name on the command line.
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    fn stage(self) -> Stage {
        self.describe().1
    }

    fn describe(self) -> (&'static str, Stage) {
        match self {
            Self::AllAlpha => ("AllAlpha", Stage::Group),
            Self::AllBeta => ("AllBeta", Stage::Group),
            Self::ComputeDomainCliques => ("ComputeDomainCliques", Stage::Beta),
            Self::ConsumableShares => ("ConsumableShares", Stage::Alpha),
            Self::ContextualLogging => ("ContextualLogging", Stage::Beta),
            Self::CrashOnNVLinkFabricErrors => ("CrashOnNVLinkFabricErrors", Stage::Beta),
            Self::DRAListTypeAttributes => ("DRAListTypeAttributes", Stage::Alpha),
            Self::DeviceMetadata => ("DeviceMetadata", Stage::Alpha),
            Self::DynamicMIG => ("DynamicMIG", Stage::Alpha),
            Self::FabricManagerPartitioning => ("FabricManagerPartitioning", Stage::Alpha),
            Self::HostManagedIMEX => ("HostManagedIMEX", Stage::Alpha),
            Self::IMEXDaemonsWithDNSNames => ("IMEXDaemonsWithDNSNames", Stage::Beta),
            Self::LoggingAlphaOptions => ("LoggingAlphaOptions", Stage::Alpha),
            Self::LoggingBetaOptions => ("LoggingBetaOptions", Stage::Beta),
            Self::MPSSupport => ("MPSSupport", Stage::Alpha),
            Self::NVMLDeviceHealthCheck => ("NVMLDeviceHealthCheck", Stage::Alpha),
            Self::PassthroughSupport => ("PassthroughSupport", Stage::Alpha),
            Self::TimeSlicingSettings => ("TimeSlicingSettings", Stage::Alpha),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        if name == HOST_MANAGED_ALIAS {
            return Some(Self::HostManagedIMEX);
        }
        GATES.into_iter().find(|gate| gate.name() == name)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl FeatureGates ===

impl FeatureGates {
    /// Whether the gate is on: set by name, else by its group switch, else by default.
    pub fn enabled(&self, gate: Gate) -> bool {
        let group = |switch, default| self.set.get(&switch).copied().unwrap_or(default);
        self.set
            .get(&gate)
            .copied()
            .unwrap_or_else(|| match gate.stage() {
                // Go's group switches only ever set: AllAlpha=false is alpha's default anyway.
                Stage::Alpha => group(Gate::AllAlpha, false),
                Stage::Beta => group(Gate::AllBeta, true),
                Stage::Group => false,
            })
    }

    /// Sets a gate whatever was asked for; says whether that changed its value.
    pub(crate) fn force(&mut self, gate: Gate, value: bool) -> bool {
        let changed = self.enabled(gate) != value;
        self.set.insert(gate, value);
        changed
    }

    /// Checks what Go checks between gates. Call it after forcing.
    pub fn validate(&self) -> Result<(), GateError> {
        for (gate, needs) in REQUIRED {
            if self.enabled(gate) && !self.enabled(needs) {
                return Err(GateError::Requires { gate, needs });
            }
        }
        for (gate, other) in EXCLUSIVE {
            if self.enabled(gate) && self.enabled(other) {
                return Err(GateError::Excludes { gate, other });
            }
        }
        Ok(())
    }
}

impl FromStr for FeatureGates {
    type Err = GateError;

    /// Parses `A=true,B=false,`. Empty items are skipped (Go's chart writes a trailing comma), the
    /// last value of a repeated spelling wins, values are those of Go's `strconv.ParseBool`.
    fn from_str(text: &str) -> Result<Self, GateError> {
        let mut spelled = BTreeMap::new();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (name, value) = parse_item(item)?;
            spelled.insert(name, value);
        }
        let mut gates = Self::default();
        for (name, value) in spelled {
            let gate = Gate::from_name(name).ok_or_else(|| GateError::Unknown {
                name: name.to_owned(),
            })?;
            if gates
                .set
                .insert(gate, value)
                .is_some_and(|other| other != value)
            {
                return Err(GateError::Contradiction {
                    gate,
                    alias: HOST_MANAGED_ALIAS,
                });
            }
        }
        Ok(gates)
    }
}

/// Every gate with its value, in the form that [`FromStr`] reads.
impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, gate) in GATES.into_iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{gate}={}", self.enabled(gate))?;
        }
        Ok(())
    }
}

fn parse_item(item: &str) -> Result<(&str, bool), GateError> {
    let Some((name, value)) = item.split_once('=') else {
        return Err(GateError::MissingValue {
            name: item.to_owned(),
        });
    };
    let (name, value) = (name.trim(), value.trim());
    parse_bool(value)
        .map(|value| (name, value))
        .ok_or_else(|| GateError::NotABool {
            name: name.to_owned(),
            value: value.to_owned(),
        })
}

/// The spellings of Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
