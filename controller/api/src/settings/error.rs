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
    /// `driverManaged` with the gate of the other mode.
    #[error(
        "imex.mode=\"driverManaged\" and the HostManagedIMEX feature gate contradict each other: the gate says that the hosts run nvidia-imex"
    )]
    ModeExcludesGate,
    /// `driverManaged` without isolation.
    #[error(
        "imex.isolation=\"none\" is not for imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate): all ComputeDomains of a clique share one IMEX domain there, and only channels of their own keep them apart"
    )]
    DriverManagedWithoutIsolation,
    /// `driverManaged` without the gate that it goes by.
    #[error(
        "imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate) requires the ComputeDomainCliques feature gate: IMEX daemons learn their peers from ComputeDomainCliques"
    )]
    DriverManagedNeedsCliques,
    /// The socket of a daemon on the host, which there is none of.
    #[error(
        "imex.hostSocketPath {path:?} is not for imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate): claims wait for the IMEX daemon that the driver runs on the node, on its own socket"
    )]
    DriverManagedHostSocket {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// An unknown mode.
    #[error("unknown imex.mode {value:?}")]
    UnknownMode {
        /// As the user wrote it.
        value: String,
    },
    /// An unknown isolation.
    #[error("unknown imex.isolation {value:?}")]
    UnknownIsolation {
        /// As the user wrote it.
        value: String,
    },
    /// An unknown sharing.
    #[error("unknown imex.sharing {value:?}")]
    UnknownSharing {
        /// As the user wrote it.
        value: String,
    },
    /// Not a number of slots.
    #[error("imex.slots {value:?} is not a number from 1 to 1000000")]
    BadSlots {
        /// As the user wrote it.
        value: String,
    },
    /// Not a number of channels.
    #[error("imex.channelCount {value:?} is not a number from 2 to 1000000")]
    BadChannelCount {
        /// As the user wrote it.
        value: String,
    },
    /// Neither on nor off.
    #[error("imex.groupClaims {value:?} is not a boolean")]
    BadGroupClaims {
        /// As the user wrote it.
        value: String,
    },
    /// Every channel is for claims of groups, and each `ComputeDomain` is to have one of its own.
    #[error(
        "imex.groupClaims leaves no channel to ComputeDomains: imex.channelCount is {channel_count}, and channels 1 to 127 are for claims of groups"
    )]
    NoDomainChannels {
        /// How many there are.
        channel_count: u32,
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
            Self::ModeExcludesGate => "imex-mode-excludes-gate",
            Self::DriverManagedWithoutIsolation => "driver-managed-without-isolation",
            Self::DriverManagedNeedsCliques => "driver-managed-needs-cliques",
            Self::DriverManagedHostSocket { .. } => "driver-managed-host-socket",
            Self::UnknownMode { .. } => "unknown-imex-mode",
            Self::UnknownIsolation { .. } => "unknown-imex-isolation",
            Self::UnknownSharing { .. } => "unknown-imex-sharing",
            Self::BadSlots { .. } => "bad-imex-slots",
            Self::BadChannelCount { .. } => "bad-imex-channel-count",
            Self::BadGroupClaims { .. } => "bad-imex-group-claims",
            Self::NoDomainChannels { .. } => "no-imex-channels-for-domains",
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
            Self::ModeExcludesGate => {
                "remove featureGates.HostManagedIMEX (--feature-gates, FEATURE_GATES) for IMEX daemons that the driver runs, or leave resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) empty for those of the hosts"
            }
            Self::DriverManagedWithoutIsolation => {
                "leave resources.computeDomains.imex.isolation (--imex-isolation, IMEX_ISOLATION) empty, or set it to channel"
            }
            Self::DriverManagedNeedsCliques => {
                "remove featureGates.ComputeDomainCliques=false or AllBeta=false (--feature-gates, FEATURE_GATES)"
            }
            Self::DriverManagedHostSocket { .. } => {
                "leave resources.computeDomains.imex.hostSocketPath (--imex-host-socket-path, IMEX_HOST_SOCKET_PATH) empty, or set featureGates.HostManagedIMEX=true on hosts that run nvidia-imex"
            }
            Self::UnknownMode { .. } => {
                "set resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) to hostManaged or driverManaged, or leave it empty"
            }
            Self::UnknownIsolation { .. } => {
                "set resources.computeDomains.imex.isolation (--imex-isolation, IMEX_ISOLATION) to none or channel, or leave it empty"
            }
            Self::UnknownSharing { .. } => {
                "set resources.computeDomains.imex.sharing (--imex-sharing, IMEX_SHARING) to one or many, or leave it empty"
            }
            Self::BadSlots { .. } => {
                "set resources.computeDomains.imex.slots (--imex-slots, IMEX_SLOTS) to how many claims may share a node's device, or leave it empty: 64"
            }
            Self::BadChannelCount { .. } => {
                "set resources.computeDomains.imex.channelCount (--imex-channel-count, IMEX_CHANNEL_COUNT) to the driver's NVreg_ImexChannelCount, or leave it empty: 2048"
            }
            Self::BadGroupClaims { .. } => {
                "set resources.computeDomains.imex.groupClaims (--imex-group-claims, IMEX_GROUP_CLAIMS) to true or false, or leave it empty"
            }
            Self::NoDomainChannels { .. } => {
                "set resources.computeDomains.imex.channelCount (--imex-channel-count, IMEX_CHANNEL_COUNT) to more than 128, or groupClaims (--imex-group-claims, IMEX_GROUP_CLAIMS) to false"
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
