//! Why a claim could not be prepared or unprepared, as one sentence each.

use compute_domain_api::{ConfigError, DomainId};
use imex_cdi::{ChannelIdError, ClaimSpecsError};

/// Whether another attempt may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Only a change of the claim or of the node's setup helps.
    Permanent,
    /// The world may change by itself.
    Retry,
}

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The claim was allocated nothing of this driver, or several devices.
    #[error("the claim has {found} devices of this driver; a channel claim has exactly one")]
    NotOneResult {
        /// How many.
        found: usize,
    },
    /// Admin access gives a view of a device in use; a channel has no such view.
    #[error("the claim asks for admin access, which IMEX channels do not have")]
    AdminAccess,
    /// The allocated device is no channel.
    #[error("the allocated device {device:?} is no IMEX channel")]
    NotAChannel {
        /// Its name in the slice.
        device: String,
        /// What is wrong with the name.
        source: ChannelIdError,
    },
    /// No opaque config of ours applies to the result.
    #[error("the claim carries no ComputeDomainChannelConfig for request {request:?}")]
    NoConfig {
        /// The request's name.
        request: String,
    },
    /// The config cannot be read. The text is the Go driver's.
    #[error("error decoding config parameters")]
    Config {
        /// What is wrong with it.
        source: ConfigError,
    },
    /// A claim for an IMEX daemon pod. The text is the Go driver's.
    #[error("ComputeDomain daemon claims are not supported when imex.mode=hostManaged")]
    DaemonClaim,
    /// A mode that host-managed mode does not have.
    #[error("allocationMode {mode:?} is not supported in host-managed mode, only \"Single\" is")]
    AllocationMode {
        /// What the domain asks for.
        mode: String,
    },
    /// Another claim holds the device on this node.
    #[error("device {device} is still held by claim {holder}")]
    Held {
        /// The device.
        device: String,
        /// The holder as `namespace/name:uid`.
        holder: String,
    },
    /// The API server knows no such domain in the claim's namespace.
    #[error("no ComputeDomain with UID {domain} exists in namespace {namespace}")]
    DomainNotFound {
        /// The domain's UID.
        domain: DomainId,
        /// The claim's namespace.
        namespace: String,
    },
    /// The node is definitely in no clique (seed 7.2, 14).
    #[error("host-managed IMEX requires an NVLink clique on this node: {reason}")]
    NoClique {
        /// What NVML says.
        reason: String,
    },
    /// The fabric is not known, or not there yet.
    #[error("the NVLink fabric of this node is not ready: {reason}")]
    FabricNotReady {
        /// What NVML says.
        reason: String,
    },
    /// The kernel has no major for IMEX channels.
    #[error("this node has no IMEX channels: {reason}")]
    NoMajor {
        /// What `/proc/devices` says.
        reason: String,
    },
    /// An Unprepare overtook this Prepare. A new one of the same claim version
    /// is refused until the stale ones of every process have ended.
    #[error("the claim was unprepared while it was being prepared; it can be prepared again soon")]
    Aborted,
    /// The checkpoint was damaged and who holds what is not known yet.
    #[error("who holds this node's devices is being found out after the checkpoint was damaged")]
    HoldersUnknown,
    /// A record of another mode or release lost its CDI file, and we cannot
    /// write it again.
    #[error("the CDI file of this claim is gone and was written by a driver in another mode")]
    ForeignSpecLost,
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI file could not be written.
    #[error("the claim's CDI file cannot be written")]
    Cdi {
        /// Why.
        source: ClaimSpecsError,
    },
    /// The status or UID that kubelet and API server gave us is not one.
    #[error("the claim object cannot be used: {reason}")]
    BadClaim {
        /// Why.
        reason: String,
    },
}

/// Why a claim is not unprepared. All are worth another attempt: Unprepare needs
/// local state only.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnprepareError {
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI file could not be removed.
    #[error("the claim's CDI file cannot be removed")]
    Cdi {
        /// Why.
        source: ClaimSpecsError,
    },
}

// === impl PrepareError ===

impl PrepareError {
    /// A stable word: event reason, metric label.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotOneResult { .. } => "not-one-device",
            Self::AdminAccess => "admin-access",
            Self::NotAChannel { .. } => "not-a-channel",
            Self::NoConfig { .. } => "no-config",
            Self::Config { source } => source.code(),
            Self::DaemonClaim => "daemon-claim",
            Self::AllocationMode { .. } => "allocation-mode",
            Self::Held { .. } => "device-held",
            Self::DomainNotFound { .. } => "domain-not-found",
            Self::NoClique { .. } => "no-clique",
            Self::FabricNotReady { .. } => "fabric-not-ready",
            Self::NoMajor { .. } => "no-channel-major",
            Self::Aborted => "aborted",
            Self::HoldersUnknown => "holders-unknown",
            Self::ForeignSpecLost => "foreign-spec-lost",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Cdi { source } => source.code(),
            Self::BadClaim { .. } => "bad-claim",
        }
    }

    /// Whether the same claim can succeed later without anybody changing it.
    pub fn class(&self) -> Class {
        match self {
            Self::NotOneResult { .. }
            | Self::AdminAccess
            | Self::NotAChannel { .. }
            | Self::NoConfig { .. }
            | Self::Config { .. }
            | Self::DaemonClaim
            | Self::AllocationMode { .. }
            | Self::DomainNotFound { .. }
            | Self::NoClique { .. }
            | Self::ForeignSpecLost
            | Self::BadClaim { .. } => Class::Permanent,
            Self::Held { .. }
            | Self::FabricNotReady { .. }
            | Self::NoMajor { .. }
            | Self::Aborted
            | Self::HoldersUnknown
            | Self::Checkpoint { .. } => Class::Retry,
            Self::Cdi { source } => match source.class() {
                imex_cdi::Class::Permanent => Class::Permanent,
                imex_cdi::Class::Retry => Class::Retry,
            },
        }
    }

    /// What to do about it; empty where waiting is all there is.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOneResult { .. }
            | Self::NoConfig { .. }
            | Self::NotAChannel { .. }
            | Self::AdminAccess => {
                "use the ResourceClaimTemplate that the ComputeDomain's controller creates"
            }
            Self::Config { source } => source.hint(),
            Self::DaemonClaim => {
                "delete what the driver-managed mode left behind, or install that driver"
            }
            Self::AllocationMode { .. } => {
                "set spec.channel.allocationMode: Single in a new ComputeDomain"
            }
            Self::Held { .. } => "the device is free when the pod that holds it has ended",
            Self::DomainNotFound { .. } => {
                "create the ComputeDomain in the claim's namespace and use its template; a domain made anew has a new UID"
            }
            Self::NoClique { .. } => "schedule the pod on a node of a multi-node NVLink fabric",
            Self::FabricNotReady { .. } => "see the plugin's /readyz on this node",
            Self::NoMajor { .. } => {
                "load the nvidia driver with NVreg_ImexChannelCount above 0 on this node"
            }
            Self::ForeignSpecLost => {
                "delete the pod, so that its claim is unprepared, and create it again"
            }
            Self::Cdi { source } => source.hint(),
            Self::Checkpoint { .. } => {
                "see the plugin's log; check the disk of the kubelet directory"
            }
            Self::Aborted | Self::HoldersUnknown | Self::BadClaim { .. } => "",
        }
    }
}

impl UnprepareError {
    /// A stable word: metric label.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint { .. } => "checkpoint",
            Self::Cdi { source } => source.code(),
        }
    }
}
