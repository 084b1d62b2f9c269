//! Why a claim could not be prepared or unprepared, as one sentence each.

use compute_domain_api::names::{DOMAIN_LABEL, DRIVER_NAME};
use compute_domain_api::{ConfigError, DomainUid, GROUP_CHANNELS};
use dra_checkpoint::{ClaimRef, Refused, StoreError};
use dra_common::{Advice, error_chain};
use imex_cdi::{ChannelId, ChannelIdError, ClaimSpecsError};

use crate::imex_daemon::ImexDaemonError;

const TEMPLATE_HINT: &str =
    "use the ResourceClaimTemplate that the ComputeDomain's controller creates";

/// What decides which channel a claim gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelSource {
    /// Its domain: its device stands for the node. Also if the device is not known.
    Domain,
    /// Its device, which is one channel, such as that of a clique for the pods of a group.
    Device,
}

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum PrepareError {
    /// The claim was allocated nothing of this driver, or several devices.
    #[error("the claim has {found} devices of {DRIVER_NAME}; a channel claim has exactly one")]
    #[advice(
        code = "not-one-device",
        hint = asked.choose(
            "request one device of the class compute-domain-clique-channel.nvidia.com",
            TEMPLATE_HINT
        ),
        permanent
    )]
    NotOneResult {
        /// How many.
        found: usize,
        /// What one of them is.
        asked: ChannelSource,
    },
    /// Admin access is access to a device that another claim uses: a channel
    /// has none.
    #[error("the claim asks for admin access, which IMEX channels do not have")]
    #[advice(code = "admin-access", hint = TEMPLATE_HINT, permanent)]
    AdminAccess,
    /// The allocated device is not a channel.
    #[error("the allocated device {device:?} is not an IMEX channel")]
    #[advice(code = "not-a-channel", hint = TEMPLATE_HINT, permanent)]
    NotAChannel {
        /// Its name in the slice.
        device: String,
        /// What is wrong with the name.
        source: ChannelIdError,
    },
    /// No opaque config of this driver applies to the result.
    #[error("the claim has no ComputeDomainChannelConfig for request {request:?}")]
    #[advice(
        code = "no-config",
        hint = asked.choose(
            "give the claim the config of a ComputeDomain in its namespace: an opaque one of this driver, a ComputeDomainChannelConfig with the ComputeDomain's metadata.uid as domainID",
            TEMPLATE_HINT
        ),
        permanent
    )]
    NoConfig {
        /// The request's name.
        request: String,
        /// What its device is.
        asked: ChannelSource,
    },
    /// The config cannot be read. The text is the Go driver's.
    #[error("error decoding config parameters")]
    #[advice(from = source, permanent)]
    Config {
        /// What is wrong with it.
        source: ConfigError,
    },
    /// The UIDs of Kubernetes' objects have one form, and the config's `domainID` another.
    #[error("domainID {domain} is not the UID of a ComputeDomain")]
    #[advice(
        code = "config-domain-id",
        hint = "use the ResourceClaimTemplate that the ComputeDomain's controller creates, or in a claim written by hand the ComputeDomain's metadata.uid",
        permanent
    )]
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
    #[advice(
        code = "foreign-device",
        hint = "delete the ResourceSlice of that pool, and then the claim and its pods",
        permanent
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
    #[advice(
        code = "daemon-claim",
        hint = "delete the driver-managed objects, or install the driver that serves them",
        permanent
    )]
    DaemonClaim,
    /// An allocation mode other than `Single`.
    #[error("allocationMode {mode:?} is not supported, only \"Single\" is")]
    #[advice(
        code = "allocation-mode",
        hint = "set spec.channel.allocationMode: Single in a new ComputeDomain",
        permanent
    )]
    AllocationMode {
        /// The mode in the config.
        mode: String,
    },
    /// Another claim uses the device on this node.
    #[error("device {device} is still in use by claim {holder}")]
    #[advice(
        code = "device-held",
        hint = "the device is free when the pod that uses it has ended, and at most 3 minutes after it and its claim were deleted",
        retry
    )]
    InUse {
        /// The device.
        device: String,
        /// The claim that holds it.
        holder: ClaimRef,
    },
    /// A claim of another owner has the channel on this node.
    #[error("IMEX channel {channel} is still in use by claim {holder}{}", holder_relation(*.held, *.wanted))]
    #[advice(code = "channel-held", hint = channel_in_use_hint(*held, *wanted), retry)]
    ChannelInUse {
        /// The channel.
        channel: ChannelId,
        /// The claim that has it.
        holder: ClaimRef,
        /// Whether that is the holder's own.
        held: ChannelSource,
        /// Whether it would be the refused claim's own.
        wanted: ChannelSource,
    },
    /// Each domain is to have a channel of its own, and the controller has given this
    /// one none yet.
    #[error("the ComputeDomain with UID {domain} has no IMEX channel yet")]
    #[advice(
        code = "no-channel-yet",
        hint = "see the ComputeDomain's status",
        retry
    )]
    NoChannelYet {
        /// The domain's UID.
        domain: DomainUid,
    },
    /// The controller says that the channel in the domain's status is not the domain's.
    #[error(
        "IMEX channel {channel} in the status of the ComputeDomain with UID {domain} is not confirmed"
    )]
    #[advice(
        code = "channel-not-confirmed",
        hint = "see the ComputeDomain's status; delete it and create it again",
        permanent
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
    #[advice(code = "claim-not-labelled", hint = TEMPLATE_HINT, permanent)]
    NotLabelled {
        /// The UID of the domain in the claim's configuration.
        domain: DomainUid,
    },
    /// The claim has the label of another domain, whose channel the controller would keep for
    /// as long as the claim exists.
    #[error(
        "the claim has the label {DOMAIN_LABEL}={found}, and its configuration the domainID {domain}: they have to be one ComputeDomain"
    )]
    #[advice(
        code = "claim-not-labelled",
        hint = asked.choose("create the claim again, without the label", TEMPLATE_HINT),
        permanent
    )]
    OtherLabel {
        /// The UID of the domain in the claim's configuration.
        domain: DomainUid,
        /// The label's value.
        found: String,
        /// What the claim's device is.
        asked: ChannelSource,
    },
    /// The driver of this node has fewer channels.
    #[error(
        "the NVIDIA driver of this node has {count} IMEX channels, and this would be channel {channel}"
    )]
    #[advice(
        code = "channel-beyond-driver",
        hint = "load the nvidia driver with the same NVreg_ImexChannelCount on every node, and give it to the controller as imex.channelCount",
        permanent
    )]
    BeyondDriver {
        /// The channel.
        channel: ChannelId,
        /// How many the driver has.
        count: u32,
    },
    /// The API server knows no such domain in the claim's namespace.
    #[error("no ComputeDomain with UID {domain} exists in namespace {namespace}")]
    #[advice(
        code = "domain-not-found",
        hint = asked.choose(
            "create the claim again, with the metadata.uid of a ComputeDomain in its namespace as domainID; one that was deleted and created again has another UID",
            "create the pod again with a claim of the template of a ComputeDomain in its namespace; one that was deleted and created again has another UID"
        ),
        permanent
    )]
    DomainNotFound {
        /// The domain's UID.
        domain: DomainUid,
        /// The claim's namespace.
        namespace: String,
        /// What the claim's device is.
        asked: ChannelSource,
    },
    /// The node definitely belongs to no clique.
    #[error("host-managed IMEX requires an NVLink clique on this node: {reason}")]
    #[advice(
        code = "no-clique",
        hint = "schedule the pod on a node of a multi-node NVLink fabric",
        permanent
    )]
    NoClique {
        /// What NVML reports.
        reason: String,
    },
    /// The device is a channel of a clique that this node is not in, or not any more.
    #[error("the claim has a channel of NVLink clique {wanted}, and this node is in {own}")]
    #[advice(
        code = "other-clique",
        hint = "delete the pod, so that it is scheduled on a node of its claim's clique; see the node's label nvidia.com/gpu.clique",
        retry
    )]
    OtherClique {
        /// The clique of the claim.
        wanted: String,
        /// That of the node, or what is known of it.
        own: String,
    },
    /// The fabric is not known, or still coming up.
    #[error("the NVLink fabric of this node is not ready: {reason}")]
    #[advice(
        code = "fabric-not-ready",
        hint = "see the plugin's /readyz on this node",
        retry
    )]
    FabricNotReady {
        /// What NVML reports.
        reason: String,
    },
    /// The driver's own IMEX daemon on this node does not let claims pass.
    #[error(transparent)]
    #[advice(from, retry)]
    Daemon(#[from] ImexDaemonError),
    /// The kernel has no major for IMEX channels.
    #[error("this node has no IMEX channels: {reason}")]
    #[advice(
        code = "no-channel-major",
        hint = "load the nvidia driver with NVreg_ImexChannelCount above 0 on this node",
        retry
    )]
    NoMajor {
        /// What is wrong with `/proc/devices`.
        reason: String,
    },
    /// An Unprepare came in between. A new Prepare of the same claim status is
    /// refused until the late ones of every process have ended.
    #[error("the claim was unprepared while it was being prepared; it can be prepared again soon")]
    #[advice(code = "aborted", hint = "", retry)]
    Aborted,
    /// The checkpoint was damaged and is not rebuilt yet.
    #[error(
        "the checkpoint was damaged and is not rebuilt yet: it is not known which devices are in use"
    )]
    #[advice(code = "holders-unknown", hint = "", retry)]
    NeedsRecovery,
    /// The CDI spec of a record of another mode or release is missing, and this
    /// driver cannot write it.
    #[error("the CDI spec of this claim is missing; a driver in another mode had written it")]
    #[advice(
        code = "foreign-spec-lost",
        hint = "delete the pod, so that its claim is unprepared, and create it again",
        permanent
    )]
    ForeignSpecLost,
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    #[advice(
        code = "checkpoint",
        hint = "see the plugin's log; check the disk of the kubelet directory",
        retry
    )]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI spec could not be written.
    #[error("the claim's CDI spec cannot be written")]
    #[advice(from = source)]
    Cdi {
        /// Why.
        source: ClaimSpecsError,
    },
    /// The UID that kubelet sent, or the status from the API server, is malformed.
    #[error("the claim object cannot be used: {reason}")]
    #[advice(
        code = "bad-claim",
        hint = "create the pod again, so that it gets a new claim",
        permanent
    )]
    BadClaim {
        /// Why.
        reason: String,
    },
}

/// Why a claim is not unprepared. Repeat the call after any of them: Unprepare
/// needs local state only.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum UnprepareError {
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    #[advice(code = "checkpoint")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI spec could not be removed.
    #[error("the claim's CDI spec cannot be removed")]
    #[advice(from = source)]
    Cdi {
        /// Why.
        source: ClaimSpecsError,
    },
}

// === impl ChannelSource ===

impl ChannelSource {
    /// The hint for a claim that asks for its own channel, or else the other one.
    fn choose(self, own_channel: &'static str, channel_of_domain: &'static str) -> &'static str {
        match self {
            Self::Device => own_channel,
            Self::Domain => channel_of_domain,
        }
    }
}

// === impl PrepareError ===

impl PrepareError {
    /// The claim that stands in the way, if it is one. It may be gone, and nobody has said so.
    pub fn holder(&self) -> Option<&ClaimRef> {
        match self {
            Self::InUse { holder, .. } | Self::ChannelInUse { holder, .. } => Some(holder),
            _ => None,
        }
    }
}

fn channel_in_use_hint(held: ChannelSource, wanted: ChannelSource) -> &'static str {
    match (held, wanted) {
        (ChannelSource::Domain, ChannelSource::Domain) => {
            "the channel is free when the pod that uses it has ended; two ComputeDomains with one channel say so in their status"
        }
        _ => "the channel is free when the pods of that claim on this node have ended",
    }
}

/// Follows the name of the claim that has the channel.
fn holder_relation(held: ChannelSource, wanted: ChannelSource) -> &'static str {
    match (held, wanted) {
        (ChannelSource::Device, _) => ", which was allocated it",
        (ChannelSource::Domain, ChannelSource::Device) => ", whose ComputeDomain has it",
        (ChannelSource::Domain, ChannelSource::Domain) => " of another ComputeDomain",
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
