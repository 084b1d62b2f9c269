//! The setting `consumableShares`: whether several claims can have one device at once.

use std::num::NonZeroU32;
use std::str::FromStr;

use compute_domain_api::gates::{FeatureGates, Gate};
use dra_common::Advice;

/// Which capacity of a device the claims that share it consume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsumableShares {
    /// `disabled` or empty: one claim has the device.
    #[default]
    Disabled,
    /// `memory`: each claim consumes the memory that it requests; without a request, all of it.
    Memory,
    /// `unlimited`: any number of claims; they consume memory only if they request it.
    Unlimited,
    /// A number: at most this many claims; each consumes one share, unless it requests more.
    Count(NonZeroU32),
}

/// Why `consumableShares` cannot be used. All are configuration errors: the setting must be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum ConsumableSharesError {
    /// Not one of the values.
    #[error("consumableShares {value:?} is not disabled, memory, unlimited or a positive number")]
    #[advice(
        code = "bad-consumable-shares",
        hint = "set consumableShares (--consumable-shares, CONSUMABLE_SHARES) to one of these values, or leave it empty"
    )]
    BadValue {
        /// As the user wrote it.
        value: String,
    },
    /// Sharing without its feature gate.
    #[error(
        "consumableShares requires the {} feature gate",
        Gate::ConsumableShares
    )]
    #[advice(
        code = "consumable-shares-need-gate",
        hint = "set the feature gate ConsumableShares, or leave consumableShares (--consumable-shares, CONSUMABLE_SHARES) empty"
    )]
    NeedsGate,
}

// === impl ConsumableShares ===

impl ConsumableShares {
    /// The setting of a program, checked at its start.
    ///
    /// # Errors
    /// The value is unknown, or its feature gate is off.
    // req: GPU-19
    pub fn resolve(value: &str, gates: &FeatureGates) -> Result<Self, ConsumableSharesError> {
        match value.parse()? {
            Self::Disabled => Ok(Self::Disabled),
            _ if !gates.enabled(Gate::ConsumableShares) => Err(ConsumableSharesError::NeedsGate),
            shares => Ok(shares),
        }
    }
}

impl FromStr for ConsumableShares {
    type Err = ConsumableSharesError;

    fn from_str(value: &str) -> Result<Self, ConsumableSharesError> {
        match value {
            "" | "disabled" => Ok(Self::Disabled),
            "memory" => Ok(Self::Memory),
            "unlimited" => Ok(Self::Unlimited),
            number => match number.parse() {
                Ok(count) => Ok(Self::Count(count)),
                Err(_) => Err(ConsumableSharesError::BadValue {
                    value: value.to_owned(),
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: GPU-19
    #[test]
    fn every_value_is_parsed_and_others_are_named() {
        let three = ConsumableShares::Count(NonZeroU32::new(3).unwrap());
        for (value, expected) in [
            ("", ConsumableShares::Disabled),
            ("disabled", ConsumableShares::Disabled),
            ("memory", ConsumableShares::Memory),
            ("unlimited", ConsumableShares::Unlimited),
            ("3", three),
        ] {
            assert_eq!(value.parse(), Ok(expected), "{value}");
        }
        for value in ["0", "-1", "1.5", "Memory", " 3", "on", "4294967296"] {
            let error = value.parse::<ConsumableShares>().unwrap_err();
            let text = format!("consumableShares {value:?} is not ");
            assert!(error.to_string().starts_with(&text), "{error}");
        }
    }

    // req: GPU-19
    #[test]
    fn shares_need_their_gate() {
        let [off, on] = ["", "ConsumableShares=true"].map(|it| it.parse::<FeatureGates>().unwrap());
        for value in ["memory", "unlimited", "3"] {
            let error = ConsumableShares::resolve(value, &off).unwrap_err();
            assert_eq!(error, ConsumableSharesError::NeedsGate);
            assert_eq!(ConsumableShares::resolve(value, &on), value.parse());
        }
        for value in ["", "disabled"] {
            for gates in [&off, &on] {
                let shares = ConsumableShares::resolve(value, gates);
                assert_eq!(shares, Ok(ConsumableShares::Disabled));
            }
        }
        assert!(ConsumableShares::resolve("x", &on).is_err());
    }
}
