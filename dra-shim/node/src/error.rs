//! Why a claim could not be prepared or unprepared, as one sentence each.

use compute_domain_api::names::{DOMAIN_LABEL, DRIVER_NAME};
use compute_domain_api::{ConfigError, DomainUid, GROUP_CHANNELS};
use dra_checkpoint::{ClaimName, Refused, StoreError};
use imex_cdi::{ChannelId, ChannelIdError, ClaimSpecsError};

use crate::imex_daemon::ImexDaemonError;
use crate::text::error_chain;

/// Whether another attempt may help, without anybody's changing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Only a change of the claim or of the node's setup helps.
    Permanent,
    /// The state of the node or of the cluster may change by itself.
    Retry,
}

/// Which channel a claim asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// That of its domain, through the device that stands for the node. Also if it is not
    /// known.
    ChannelOfDomain,
    /// The one that its device is, such as a channel of a clique for the pods of a group.
    OwnChannel,
}

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The claim was allocated nothing of this driver, or several devices.
    #[error("the claim has {found} devices of {DRIVER_NAME}; a channel claim has exactly one")]
    NotOneResult {
        /// How many.
        found: usize,
        /// What one of them is.
        asked: Asked,
    },
    /// Admin access is access to a device that another claim uses: a channel
    /// has none.
    #[error("the claim asks for admin access, which IMEX channels do not have")]
    AdminAccess,
    /// The allocated device is not a channel.
    #[error("the allocated device {device:?} is not an IMEX channel")]
    NotAChannel {
        /// Its name in the slice.
        device: String,
        /// What is wrong with the name.
        source: ChannelIdError,
    },
    /// No opaque config of this driver applies to the result.
    #[error("the claim has no ComputeDomainChannelConfig for request {request:?}")]
    NoConfig {
        /// The request's name.
        request: String,
        /// What its device is.
        asked: Asked,
    },
    /// The config cannot be read. The text is the Go driver's.
    #[error("error decoding config parameters")]
    Config {
        /// What is wrong with it.
        source: ConfigError,
    },
    /// The UIDs of Kubernetes' objects have one form, and the config's `domainID` another.
    #[error("domainID {domain} is not the UID of a ComputeDomain")]
    NotAUid {
        /// The text.
        domain: DomainUid,
    },
    /// The device is of a `ResourceSlice` that somebody else has made.
    #[error(
        "{DRIVER_NAME} publishes no device {device} in pool {pool}: a channel above 0 is the node's own, or one of {} to {} of an NVLink clique",
        GROUP_CHANNELS.start(),
        GROUP_CHANNELS.end()
    )]
    ForeignDevice {
        /// The device.
        device: String,
        /// Its pool.
        pool: String,
    },
    /// A claim for an IMEX daemon pod. The text begins as the Go driver's.
    #[error(
        "ComputeDomain daemon claims are not supported when imex.mode=hostManaged, nor by this driver's imex.mode=driverManaged, whose daemons need no claims"
    )]
    DaemonClaim,
    /// An allocation mode other than `Single`.
    #[error("allocationMode {mode:?} is not supported, only \"Single\" is")]
    AllocationMode {
        /// The mode in the config.
        mode: String,
    },
    /// Another claim uses the device on this node.
    #[error("device {device} is still in use by claim {holder}")]
    InUse {
        /// The device.
        device: String,
        /// The claim that holds it.
        holder: ClaimName,
    },
    /// A claim of another owner has the channel on this node.
    #[error("IMEX channel {channel} is still in use by claim {holder}{}", whose(*.held, *.wanted))]
    ChannelInUse {
        /// The channel.
        channel: ChannelId,
        /// The claim that has it.
        holder: ClaimName,
        /// Whether that is the holder's own.
        held: Asked,
        /// Whether it would be the refused claim's own.
        wanted: Asked,
    },
    /// Each domain is to have a channel of its own, and the controller has given this
    /// one none yet.
    #[error("the ComputeDomain with UID {domain} has no IMEX channel yet")]
    NoChannelYet {
        /// The domain's UID.
        domain: DomainUid,
    },
    /// The controller says that the channel in the domain's status is not the domain's.
    #[error(
        "IMEX channel {channel} in the status of the ComputeDomain with UID {domain} is not confirmed"
    )]
    ChannelNotConfirmed {
        /// The domain's UID.
        domain: DomainUid,
        /// The channel.
        channel: ChannelId,
    },
    /// The claim lacks the label by which the controller keeps the domain's channel for as
    /// long as the claim exists.
    #[error(
        "the claim does not have the label {DOMAIN_LABEL}={domain}, the domainID of its configuration: without it the ComputeDomain's IMEX channel may be given to another one while the claim has it"
    )]
    NotLabelled {
        /// The UID of the domain in the claim's configuration.
        domain: DomainUid,
    },
    /// The claim has the label of another domain, whose channel the controller would keep for
    /// as long as the claim exists.
    #[error(
        "the claim has the label {DOMAIN_LABEL}={found}, and its configuration the domainID {domain}: they have to be one ComputeDomain"
    )]
    OtherLabel {
        /// The UID of the domain in the claim's configuration.
        domain: DomainUid,
        /// The label's value.
        found: String,
        /// What the claim's device is.
        asked: Asked,
    },
    /// The driver of this node has fewer channels.
    #[error(
        "the NVIDIA driver of this node has {count} IMEX channels, and this would be channel {channel}"
    )]
    BeyondDriver {
        /// The channel.
        channel: ChannelId,
        /// How many the driver has.
        count: u32,
    },
    /// The API server knows no such domain in the claim's namespace.
    #[error("no ComputeDomain with UID {domain} exists in namespace {namespace}")]
    DomainNotFound {
        /// The domain's UID.
        domain: DomainUid,
        /// The claim's namespace.
        namespace: String,
        /// What the claim's device is.
        asked: Asked,
    },
    /// The node definitely belongs to no clique.
    #[error("host-managed IMEX requires an NVLink clique on this node: {reason}")]
    NoClique {
        /// What NVML reports.
        reason: String,
    },
    /// The device is a channel of a clique that this node is not in, or not any more.
    #[error("the claim has a channel of NVLink clique {wanted}, and this node is in {own}")]
    OtherClique {
        /// The clique of the claim.
        wanted: String,
        /// That of the node, or what is known of it.
        own: String,
    },
    /// The fabric is not known, or still coming up.
    #[error("the NVLink fabric of this node is not ready: {reason}")]
    FabricNotReady {
        /// What NVML reports.
        reason: String,
    },
    /// The driver's own IMEX daemon on this node does not let claims pass.
    #[error(transparent)]
    Daemon(#[from] ImexDaemonError),
    /// The kernel has no major for IMEX channels.
    #[error("this node has no IMEX channels: {reason}")]
    NoMajor {
        /// What is wrong with `/proc/devices`.
        reason: String,
    },
    /// An Unprepare came in between. A new Prepare of the same claim status is
    /// refused until the late ones of every process have ended.
    #[error("the claim was unprepared while it was being prepared; it can be prepared again soon")]
    Aborted,
    /// The checkpoint was damaged and is not rebuilt yet.
    #[error(
        "the checkpoint was damaged and is not rebuilt yet: it is not known which devices are in use"
    )]
    NeedsRecovery,
    /// The CDI spec of a record of another mode or release is missing, and this
    /// driver cannot write it.
    #[error("the CDI spec of this claim is missing; a driver in another mode had written it")]
    ForeignSpecLost,
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI spec could not be written.
    #[error("the claim's CDI spec cannot be written")]
    Cdi {
        /// Why.
        source: ClaimSpecsError,
    },
    /// The UID that kubelet sent, or the status from the API server, is malformed.
    #[error("the claim object cannot be used: {reason}")]
    BadClaim {
        /// Why.
        reason: String,
    },
}

/// Why a claim is not unprepared. Repeat the call after any of them: Unprepare
/// needs local state only.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnprepareError {
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI spec could not be removed.
    #[error("the claim's CDI spec cannot be removed")]
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
            Self::NotAUid { .. } => "config-domain-id",
            Self::ForeignDevice { .. } => "foreign-device",
            Self::DaemonClaim => "daemon-claim",
            Self::AllocationMode { .. } => "allocation-mode",
            Self::InUse { .. } => "device-held",
            Self::ChannelInUse { .. } => "channel-held",
            Self::NoChannelYet { .. } => "no-channel-yet",
            Self::ChannelNotConfirmed { .. } => "channel-not-confirmed",
            Self::NotLabelled { .. } | Self::OtherLabel { .. } => "claim-not-labelled",
            Self::BeyondDriver { .. } => "channel-beyond-driver",
            Self::DomainNotFound { .. } => "domain-not-found",
            Self::NoClique { .. } => "no-clique",
            Self::OtherClique { .. } => "other-clique",
            Self::FabricNotReady { .. } => "fabric-not-ready",
            Self::Daemon(source) => source.code(),
            Self::NoMajor { .. } => "no-channel-major",
            Self::Aborted => "aborted",
            Self::NeedsRecovery => "holders-unknown",
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
            | Self::NotAUid { .. }
            | Self::ForeignDevice { .. }
            | Self::DaemonClaim
            | Self::AllocationMode { .. }
            | Self::DomainNotFound { .. }
            | Self::ChannelNotConfirmed { .. }
            | Self::NotLabelled { .. }
            | Self::OtherLabel { .. }
            | Self::BeyondDriver { .. }
            | Self::NoClique { .. }
            | Self::ForeignSpecLost
            | Self::BadClaim { .. } => Class::Permanent,
            Self::InUse { .. }
            | Self::ChannelInUse { .. }
            | Self::NoChannelYet { .. }
            | Self::OtherClique { .. }
            | Self::FabricNotReady { .. }
            | Self::Daemon(_)
            | Self::NoMajor { .. }
            | Self::Aborted
            | Self::NeedsRecovery
            | Self::Checkpoint { .. } => Class::Retry,
            Self::Cdi { source } => match source.class() {
                imex_cdi::Class::Permanent => Class::Permanent,
                imex_cdi::Class::Retry => Class::Retry,
            },
        }
    }

    /// The claim that stands in the way, if it is one. It may be gone, and nobody has said so.
    pub fn holder(&self) -> Option<&ClaimName> {
        match self {
            Self::InUse { holder, .. } | Self::ChannelInUse { holder, .. } => Some(holder),
            _ => None,
        }
    }
}

/// Follows the name of the claim that has the channel.
fn whose(held: Asked, wanted: Asked) -> &'static str {
    match (held, wanted) {
        (Asked::OwnChannel, _) => ", which was allocated it",
        (Asked::ChannelOfDomain, Asked::OwnChannel) => ", whose ComputeDomain has it",
        (Asked::ChannelOfDomain, Asked::ChannelOfDomain) => " of another ComputeDomain",
    }
}

impl From<StoreError> for PrepareError {
    fn from(error: StoreError) -> Self {
        Self::Checkpoint {
            reason: error_chain(&error),
        }
    }
}

impl From<Refused> for PrepareError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::RecoveryNeeded(_) => Self::NeedsRecovery,
            Refused::Aborted { .. } | Refused::NotStarted { .. } | Refused::OtherStatus { .. } => {
                Self::Aborted
            }
            other => Self::Checkpoint {
                reason: error_chain(&other),
            },
        }
    }
}

// === impl UnprepareError ===

impl UnprepareError {
    /// A stable word: metric label.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint { .. } => "checkpoint",
            Self::Cdi { source } => source.code(),
        }
    }
}

impl From<StoreError> for UnprepareError {
    fn from(error: StoreError) -> Self {
        Self::Checkpoint {
            reason: error_chain(&error),
        }
    }
}

impl From<Refused> for UnprepareError {
    fn from(refused: Refused) -> Self {
        Self::Checkpoint {
            reason: error_chain(&refused),
        }
    }
}
