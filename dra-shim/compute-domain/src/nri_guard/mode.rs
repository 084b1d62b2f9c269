//! The guard's mode: what it does about a container that requests a channel without a claim.

use std::fmt;
use std::str::FromStr;

/// The guard's mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// No guard: the runtime's socket is not used.
    #[default]
    Off,
    /// The container is reported, with an event of the pod and a metric.
    Warn,
    /// The container is refused.
    Enforce,
}

// === impl Mode ===

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" | "off" => Ok(Self::Off),
            "warn" => Ok(Self::Warn),
            "enforce" => Ok(Self::Enforce),
            _ => Err("expected off, warn or enforce".to_owned()),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        })
    }
}
