use std::sync::LazyLock;

use super::gate::Gate;

/// Why a string of feature gates is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The Go driver has no gate of this name.
    #[error("unrecognized feature gate: {name}")]
    Unknown {
        /// As the user wrote it.
        name: String,
    },
    /// An item without `=`.
    #[error("missing bool value for feature gate {name}")]
    MissingValue {
        /// The whole item.
        name: String,
    },
    /// A value that is not a boolean.
    #[error("invalid value of feature gate {name}={value}")]
    NotABool {
        /// The gate, as the user wrote it.
        name: String,
        /// The value, as the user wrote it.
        value: String,
    },
    /// A gate and its alias have different values.
    #[error("feature gates {gate} and {alias} are the same gate and have contradicting values")]
    Contradiction {
        /// The gate.
        gate: Gate,
        /// Its alias.
        alias: &'static str,
    },
    /// A gate is on without one that it requires.
    #[error("feature gate {gate} requires feature gate {needs}")]
    Requires {
        /// The gate that is on.
        gate: Gate,
        /// The gate that is off.
        needs: Gate,
    },
    /// Two gates are on that exclude each other.
    #[error("feature gates {gate} and {other} are mutually exclusive")]
    Excludes {
        /// One of them.
        gate: Gate,
        /// The other.
        other: Gate,
    },
}

impl GateError {
    /// A stable name of the error, for logs and tests.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown-feature-gate",
            Self::MissingValue { .. } | Self::NotABool { .. } => "bad-feature-gate-value",
            Self::Contradiction { .. } => "contradicting-feature-gates",
            Self::Requires { .. } | Self::Excludes { .. } => "incompatible-feature-gates",
        }
    }

    /// What to change: the chart's key, the flag and the environment variable.
    pub fn hint(&self) -> &'static str {
        static KNOWN: LazyLock<String> = LazyLock::new(|| {
            let names: Vec<&str> = Gate::ALL.into_iter().map(Gate::name).collect();
            format!(
                "remove it from featureGates (--feature-gates, FEATURE_GATES) or use one of {}",
                names.join(", ")
            )
        });
        match self {
            Self::Unknown { .. } => &KNOWN,
            Self::MissingValue { .. } | Self::NotABool { .. } => {
                "write it as NAME=true or NAME=false in featureGates (--feature-gates, FEATURE_GATES)"
            }
            Self::Contradiction { .. } => {
                "keep only featureGates.HostManagedIMEX (--feature-gates, FEATURE_GATES)"
            }
            Self::Requires { .. } => {
                "set both to the same value in featureGates (--feature-gates, FEATURE_GATES)"
            }
            Self::Excludes { .. } => {
                "set one of them to false in featureGates (--feature-gates, FEATURE_GATES)"
            }
        }
    }
}
