use std::sync::LazyLock;

use dra_common::Advice;

use super::gate::Gate;

const VALUE_HINT: &str =
    "write the gate as NAME=true or NAME=false in featureGates (--feature-gates, FEATURE_GATES)";

/// Why a feature gate string is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum GateError {
    /// The Go driver has no gate of this name.
    #[error("unrecognized feature gate: {name}")]
    #[advice(code = "unknown-feature-gate", hint = known_gates())]
    Unknown {
        /// As the user wrote it.
        name: String,
    },
    /// An item without `=`.
    #[error("missing bool value for feature gate {name}")]
    #[advice(code = "bad-feature-gate-value", hint = VALUE_HINT)]
    MissingValue {
        /// The whole item.
        name: String,
    },
    /// A value that is not a boolean.
    #[error("invalid value of feature gate {name}={value}")]
    #[advice(code = "bad-feature-gate-value", hint = VALUE_HINT)]
    NotABool {
        /// The gate, as the user wrote it.
        name: String,
        /// The value, as the user wrote it.
        value: String,
    },
    /// A gate and its alias have different values.
    #[error(
        "feature gates {gate} and {alias} are two names of the same gate, but have different values"
    )]
    #[advice(
        code = "contradicting-feature-gates",
        hint = "keep only featureGates.HostManagedIMEX (--feature-gates, FEATURE_GATES)"
    )]
    Contradiction {
        /// The gate.
        gate: Gate,
        /// Its alias.
        alias: &'static str,
    },
    /// A gate is on, and a gate that it requires is off.
    #[error("feature gate {gate} requires feature gate {needs}")]
    #[advice(
        code = "incompatible-feature-gates",
        hint = "set both gates to the same value in featureGates (--feature-gates, FEATURE_GATES)"
    )]
    Requires {
        /// The gate that is on.
        gate: Gate,
        /// The gate that is off.
        needs: Gate,
    },
    /// Two mutually exclusive gates are on.
    #[error("feature gates {gate} and {other} are mutually exclusive")]
    #[advice(
        code = "incompatible-feature-gates",
        hint = "set one of the two gates to false in featureGates (--feature-gates, FEATURE_GATES)"
    )]
    Excludes {
        /// One of them.
        gate: Gate,
        /// The other.
        other: Gate,
    },
}

/// The hint for an unknown gate.
fn known_gates() -> &'static str {
    static KNOWN: LazyLock<String> = LazyLock::new(|| {
        let names: Vec<&str> = Gate::ALL.into_iter().map(Gate::name).collect();
        format!(
            "remove the gate from featureGates (--feature-gates, FEATURE_GATES) or use one of {}",
            names.join(", ")
        )
    });
    &KNOWN
}
