use std::path::PathBuf;

use crate::gates::GateError;

/// Why the IMEX options cannot be used. Every one is a configuration error: the options have to be
/// changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The feature gates are not valid.
    #[error(transparent)]
    Gates(#[from] GateError),
    /// `hostManaged` without its gate.
    #[error("imex.mode=\"hostManaged\" requires the HostManagedIMEX feature gate")]
    ModeNeedsGate,
    /// The driver-managed mode, explicitly or by default.
    #[error(
        "imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate) is not implemented"
    )]
    DriverManagedNotImplemented,
    /// An unknown mode.
    #[error("unknown imex.mode {value:?}")]
    UnknownMode {
        /// As the user wrote it.
        value: String,
    },
    /// Isolation by channel: a channel for each ComputeDomain.
    #[error("imex.isolation=\"channel\" is not implemented")]
    ChannelIsolationNotImplemented,
    /// An unknown isolation.
    #[error("unknown imex.isolation {value:?}")]
    UnknownIsolation {
        /// As the user wrote it.
        value: String,
    },
    /// An unknown value for nodes without a clique.
    #[error("unknown imex.withoutClique {value:?}")]
    UnknownWithoutClique {
        /// As the user wrote it.
        value: String,
    },
    /// An unknown value for nodes with a degraded fabric.
    #[error("unknown imex.degradedFabric {value:?}")]
    UnknownDegradedFabric {
        /// As the user wrote it.
        value: String,
    },
    /// The control socket has to be an absolute path on the host.
    #[error("imex.hostSocketPath {path:?} is not an absolute path")]
    RelativeSocketPath {
        /// As the user wrote it.
        path: PathBuf,
    },
}

impl SettingsError {
    /// A stable name of the error, for logs and tests.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Gates(source) => source.code(),
            Self::ModeNeedsGate => "imex-mode-needs-gate",
            Self::DriverManagedNotImplemented => "driver-managed-not-built",
            Self::UnknownMode { .. } => "unknown-imex-mode",
            Self::ChannelIsolationNotImplemented => "channel-isolation-not-built",
            Self::UnknownIsolation { .. } => "unknown-imex-isolation",
            Self::UnknownWithoutClique { .. } => "unknown-imex-without-clique",
            Self::UnknownDegradedFabric { .. } => "unknown-imex-degraded-fabric",
            Self::RelativeSocketPath { .. } => "relative-imex-socket-path",
        }
    }

    /// What to change: the chart's key, the flag and the environment variable.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Gates(source) => source.hint(),
            Self::ModeNeedsGate => {
                "set featureGates.HostManagedIMEX=true (--feature-gates or FEATURE_GATES: HostManagedIMEX=true)"
            }
            Self::DriverManagedNotImplemented => {
                "set featureGates.HostManagedIMEX=true (--feature-gates or FEATURE_GATES: HostManagedIMEX=true) and leave resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) empty"
            }
            Self::UnknownMode { .. } => {
                "set resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) to hostManaged, or leave it empty"
            }
            Self::ChannelIsolationNotImplemented | Self::UnknownIsolation { .. } => {
                "set resources.computeDomains.imex.isolation (--imex-isolation, IMEX_ISOLATION) to none, or leave it empty"
            }
            Self::UnknownWithoutClique { .. } => {
                "set resources.computeDomains.imex.withoutClique (--imex-without-clique, IMEX_WITHOUT_CLIQUE) to publish or taint, or leave it empty"
            }
            Self::UnknownDegradedFabric { .. } => {
                "set resources.computeDomains.imex.degradedFabric (--imex-degraded-fabric, IMEX_DEGRADED_FABRIC) to publish or taint, or leave it empty"
            }
            Self::RelativeSocketPath { .. } => {
                "set resources.computeDomains.imex.hostSocketPath (--imex-host-socket-path, IMEX_HOST_SOCKET_PATH) to an absolute host path, or leave it empty"
            }
        }
    }
}
