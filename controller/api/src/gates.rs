//! The feature gates of the Go driver, parsed and checked by its rules.
//!
//! The chart passes the same string of gates to all components, and the Go driver's controller passes every gate on
//! to its daemons. So gates that affect only GPUs are accepted and checked by all programs, too.

mod error;
mod gate;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use error::GateError;
pub use gate::Gate;
use gate::{HOST_MANAGED_ALIAS, Stage};

/// Explicitly set gates; [`enabled`](Self::enabled) applies the defaults of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    explicit: BTreeMap<Gate, bool>,
}

/// Pairs of gates that cannot both be on.
const EXCLUSIVE: [(Gate, Gate); 4] = [
    (Gate::DynamicMIG, Gate::PassthroughSupport),
    (Gate::DynamicMIG, Gate::NVMLDeviceHealthCheck),
    (Gate::DynamicMIG, Gate::MPSSupport),
    (Gate::PassthroughSupport, Gate::NVMLDeviceHealthCheck),
];

/// Pairs of gates: the first requires the second.
const REQUIRED: [(Gate, Gate); 2] = [
    (Gate::ComputeDomainCliques, Gate::IMEXDaemonsWithDNSNames),
    (Gate::DeviceMetadata, Gate::PassthroughSupport),
];

// === impl FeatureGates ===

impl FeatureGates {
    /// Whether the gate is on: its explicit value, else `AllAlpha` or `AllBeta`, else the default of its stage.
    pub fn enabled(&self, gate: Gate) -> bool {
        let group = |gate, default| self.explicit.get(&gate).copied().unwrap_or(default);
        self.explicit
            .get(&gate)
            .copied()
            .unwrap_or_else(|| match gate.stage() {
                // In Go, an explicit `false` of a group has no effect; for AllAlpha it is the default.
                Stage::Alpha => group(Gate::AllAlpha, false),
                Stage::Beta => group(Gate::AllBeta, true),
                Stage::Group => false,
            })
    }

    /// Sets a gate, overriding an explicit value. Returns whether the value changed.
    pub(crate) fn force(&mut self, gate: Gate, value: bool) -> bool {
        let changed = self.enabled(gate) != value;
        self.explicit.insert(gate, value);
        changed
    }

    /// Checks the gates against each other by the Go driver's rules.
    ///
    /// [`ImexOptions::resolve`](crate::ImexOptions::resolve) calls it last, because a mode first forces off gates
    /// that might conflict with others.
    ///
    /// # Errors
    /// The first pair of gates whose values conflict.
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

    /// Parses `A=true,B=false,`. Empty items are skipped (the Go driver's chart writes a trailing comma). The last
    /// value of a repeated name is used. Values are those of Go's `strconv.ParseBool`. [`FeatureGates::validate`]
    /// checks the gates against each other.
    // req: MODE-5
    fn from_str(text: &str) -> Result<Self, GateError> {
        let mut values = BTreeMap::new();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (name, value) = parse_item(item)?;
            values.insert(name, value);
        }
        let mut gates = Self::default();
        for (name, value) in values {
            let gate = Gate::from_name(name).ok_or_else(|| GateError::Unknown {
                name: name.to_owned(),
            })?;
            if gates
                .explicit
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

/// Every gate with its value, in the format that [`FromStr`] parses.
impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, gate) in Gate::ALL.into_iter().enumerate() {
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

/// Go's `strconv.ParseBool`.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
