use std::path::PathBuf;

use dra_common::Advice;

use crate::gates::GateError;

/// Why the IMEX options cannot be used. All are configuration errors: the options must be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum SettingsError {
    /// The feature gates are not valid.
    #[error(transparent)]
    #[advice(from)]
    Gates(#[from] GateError),
    /// `hostManaged` without its gate.
    #[error("imex.mode=\"hostManaged\" requires the HostManagedIMEX feature gate")]
    #[advice(
        code = "imex-mode-needs-gate",
        hint = "set featureGates.HostManagedIMEX=true (--feature-gates or FEATURE_GATES: HostManagedIMEX=true)"
    )]
    ModeNeedsGate,
    /// `driverManaged` with the gate of the other mode.
    #[error(
        "imex.mode=\"driverManaged\" and the HostManagedIMEX feature gate conflict: the gate means that the hosts run nvidia-imex"
    )]
    #[advice(
        code = "imex-mode-excludes-gate",
        hint = "remove featureGates.HostManagedIMEX (--feature-gates, FEATURE_GATES) to let the driver run nvidia-imex, or leave resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) empty if the hosts run it"
    )]
    ModeExcludesGate,
    /// `driverManaged` without isolation.
    #[error(
        "imex.isolation=\"none\" is not supported with imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate): ComputeDomains of a clique share one IMEX domain, and only channels isolate them"
    )]
    #[advice(
        code = "driver-managed-without-isolation",
        hint = "leave resources.computeDomains.imex.isolation (--imex-isolation, IMEX_ISOLATION) empty, or set it to channel"
    )]
    DriverManagedWithoutIsolation,
    /// `driverManaged` without a gate that it requires.
    #[error(
        "imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate) requires the ComputeDomainCliques feature gate: IMEX daemons get their peers from ComputeDomainCliques"
    )]
    #[advice(
        code = "driver-managed-needs-cliques",
        hint = "remove featureGates.ComputeDomainCliques=false or AllBeta=false (--feature-gates, FEATURE_GATES)"
    )]
    DriverManagedNeedsCliques,
    /// The socket of a host daemon, in the mode without one.
    #[error(
        "imex.hostSocketPath {path:?} is not supported with imex.mode=\"driverManaged\" (the default without the HostManagedIMEX feature gate): each node's IMEX daemon has its own socket"
    )]
    #[advice(
        code = "driver-managed-host-socket",
        hint = "leave resources.computeDomains.imex.hostSocketPath (--imex-host-socket-path, IMEX_HOST_SOCKET_PATH) empty, or set featureGates.HostManagedIMEX=true if the hosts run nvidia-imex"
    )]
    DriverManagedHostSocket {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// An unknown mode.
    #[error("unknown imex.mode {value:?}")]
    #[advice(
        code = "unknown-imex-mode",
        hint = "set resources.computeDomains.imex.mode (--imex-mode, IMEX_MODE) to hostManaged or driverManaged, or leave it empty"
    )]
    UnknownMode {
        /// As the user wrote it.
        value: String,
    },
    /// An unknown isolation.
    #[error("unknown imex.isolation {value:?}")]
    #[advice(
        code = "unknown-imex-isolation",
        hint = "set resources.computeDomains.imex.isolation (--imex-isolation, IMEX_ISOLATION) to none or channel, or leave it empty"
    )]
    UnknownIsolation {
        /// As the user wrote it.
        value: String,
    },
    /// An unknown sharing.
    #[error("unknown imex.sharing {value:?}")]
    #[advice(
        code = "unknown-imex-sharing",
        hint = "set resources.computeDomains.imex.sharing (--imex-sharing, IMEX_SHARING) to one or many, or leave it empty"
    )]
    UnknownSharing {
        /// As the user wrote it.
        value: String,
    },
    /// Not a valid number of slots.
    #[error("imex.slots {value:?} is not a number from 1 to 1000000")]
    #[advice(
        code = "bad-imex-slots",
        hint = "set resources.computeDomains.imex.slots (--imex-slots, IMEX_SLOTS) to the maximum number of claims that share a node's device, or leave it empty for the default, 64"
    )]
    BadSlots {
        /// As the user wrote it.
        value: String,
    },
    /// Not a valid number of channels.
    #[error("imex.channelCount {value:?} is not a number from 2 to 1000000")]
    #[advice(
        code = "bad-imex-channel-count",
        hint = "set resources.computeDomains.imex.channelCount (--imex-channel-count, IMEX_CHANNEL_COUNT) to the driver's NVreg_ImexChannelCount, or leave it empty for the default, 2048"
    )]
    BadChannelCount {
        /// As the user wrote it.
        value: String,
    },
    /// Neither on nor off.
    #[error("imex.groupClaims {value:?} is not a boolean")]
    #[advice(
        code = "bad-imex-group-claims",
        hint = "set resources.computeDomains.imex.groupClaims (--imex-group-claims, IMEX_GROUP_CLAIMS) to true or false, or leave it empty"
    )]
    BadGroupClaims {
        /// As the user wrote it.
        value: String,
    },
    /// All channels are for claims of groups, but each `ComputeDomain` needs its own.
    #[error(
        "imex.groupClaims leaves no channels for ComputeDomains: imex.channelCount is {channel_count}, and channels 1 to 127 are reserved for group claims"
    )]
    #[advice(
        code = "no-imex-channels-for-domains",
        hint = "set resources.computeDomains.imex.channelCount (--imex-channel-count, IMEX_CHANNEL_COUNT) to more than 128, or groupClaims (--imex-group-claims, IMEX_GROUP_CLAIMS) to false"
    )]
    NoDomainChannels {
        /// Number of channels.
        channel_count: u32,
    },
    /// An unknown value for nodes without a clique.
    #[error("unknown imex.withoutClique {value:?}")]
    #[advice(
        code = "unknown-imex-without-clique",
        hint = "set resources.computeDomains.imex.withoutClique (--imex-without-clique, IMEX_WITHOUT_CLIQUE) to publish or taint, or leave it empty"
    )]
    UnknownWithoutClique {
        /// As the user wrote it.
        value: String,
    },
    /// An unknown value for nodes with a degraded fabric.
    #[error("unknown imex.degradedFabric {value:?}")]
    #[advice(
        code = "unknown-imex-degraded-fabric",
        hint = "set resources.computeDomains.imex.degradedFabric (--imex-degraded-fabric, IMEX_DEGRADED_FABRIC) to publish or taint, or leave it empty"
    )]
    UnknownDegradedFabric {
        /// As the user wrote it.
        value: String,
    },
    /// The control socket must be an absolute path on the host.
    #[error("imex.hostSocketPath {path:?} is not an absolute path")]
    #[advice(
        code = "relative-imex-socket-path",
        hint = "set resources.computeDomains.imex.hostSocketPath (--imex-host-socket-path, IMEX_HOST_SOCKET_PATH) to an absolute host path, or leave it empty"
    )]
    RelativeSocketPath {
        /// As the user wrote it.
        path: PathBuf,
    },
}
