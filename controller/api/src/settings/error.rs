use std::path::PathBuf;

use crate::gates::GateError;

/// Why the IMEX options are refused. Every one is a configuration error: nothing but a change of
/// the options helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The feature gates themselves.
    #[error(transparent)]
    Gates(#[from] GateError),
    /// `hostManaged` without its gate.
    #[error("imex.mode=\"hostManaged\" requires the HostManagedIMEX feature gate")]
    ModeNeedsGate,
    /// The driver-managed mode, asked for or by default.
    #[error(
        "imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate) is not built yet"
    )]
    DriverManagedNotBuilt,
    /// A mode that no release knows.
    #[error("unknown imex.mode {value:?}")]
    UnknownMode {
        /// As it was typed.
        value: String,
    },
    /// One channel per workload.
    #[error("imex.isolation=\"channel\" is not built yet")]
    ChannelIsolationNotBuilt,
    /// An isolation that no release knows.
    #[error("unknown imex.isolation {value:?}")]
    UnknownIsolation {
        /// As it was typed.
        value: String,
    },
    /// The control socket is a host path, so it has to be absolute.
    #[error("imex.hostSocketPath {path:?} is not an absolute path")]
    RelativeSocketPath {
        /// As it was typed.
        path: PathBuf,
    },
}

impl SettingsError {
    /// A stable word for logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Gates(source) => source.code(),
            Self::ModeNeedsGate => "imex-mode-needs-gate",
            Self::DriverManagedNotBuilt => "driver-managed-not-built",
            Self::UnknownMode { .. } => "unknown-imex-mode",
            Self::ChannelIsolationNotBuilt => "channel-isolation-not-built",
            Self::UnknownIsolation { .. } => "unknown-imex-isolation",
            Self::RelativeSocketPath { .. } => "relative-imex-socket-path",
        }
    }

    /// What to change, as the chart spells it and as the process does.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Gates(source) => source.hint(),
            Self::ModeNeedsGate => {
                "set featureGates.HostManagedIMEX=true (--feature-gates or FEATURE_GATES: HostManagedIMEX=true)"
            }
            Self::DriverManagedNotBuilt => {
                "set featureGates.HostManagedIMEX=true (--feature-gates or FEATURE_GATES: HostManagedIMEX=true) and leave resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) empty"
            }
            Self::UnknownMode { .. } => {
                "set resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) to hostManaged, or leave it empty"
            }
            Self::ChannelIsolationNotBuilt | Self::UnknownIsolation { .. } => {
                "set resources.computeDomains.imex.isolation (--imex-isolation, IMEX_ISOLATION) to none, or leave it empty"
            }
            Self::RelativeSocketPath { .. } => {
                "set resources.computeDomains.imex.hostSocketPath (--imex-host-socket-path, IMEX_HOST_SOCKET_PATH) to an absolute host path, or leave it empty"
            }
        }
    }
}
