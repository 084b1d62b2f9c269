//! Errors of Prepare, one sentence each.

use compute_domain_api::names::{DOMAIN_LABEL, DRIVER_NAME};
use compute_domain_api::{ConfigError, DomainUid, GROUP_CHANNELS};
use dra_checkpoint::ClaimRef;
use dra_common::Advice;
use imex_cdi::{ChannelId, ChannelIdError};

use crate::imex_daemon::ImexDaemonError;

const TEMPLATE_HINT: &str =
    "use the ResourceClaimTemplate that the ComputeDomain's controller creates";

/// Source of the channel that a claim gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelSource {
    /// The domain: the claim's device stands for the node. Also used for an unknown device.
    Domain,
    /// The device, which is one channel: for example, a clique's channel for a group of pods.
    Device,
}

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum PrepareError {
    /// The claim was allocated none or several of this driver's devices.
    #[error(
        "the claim has {found} devices of {DRIVER_NAME}; a channel claim must have exactly one device"
    )]
    #[advice(
        code = "not-one-device",
        hint = channel_source.choose(
            "request one device of the class compute-domain-clique-channel.nvidia.com",
            TEMPLATE_HINT
        ),
        permanent
    )]
    NotOneResult {
        /// The number of allocated devices.
        found: usize,
        /// Source of the channel of the first device.
        channel_source: ChannelSource,
    },
    /// The claim has `adminAccess`, which is access to a device that another claim uses.
    #[error("adminAccess is not supported for IMEX channels")]
    #[advice(code = "admin-access", hint = TEMPLATE_HINT, permanent)]
    AdminAccess,
    /// The allocated device is not a channel.
    #[error("the allocated device {device:?} is not an IMEX channel")]
    #[advice(code = "not-a-channel", hint = TEMPLATE_HINT, permanent)]
    NotAChannel {
        /// The device's name in the slice.
        device: String,
        /// Why the name is invalid.
        source: ChannelIdError,
    },
    /// No opaque config of this driver applies to the allocated device.
    #[error("the claim has no ComputeDomainChannelConfig for request {request:?}")]
    #[advice(
        code = "no-config",
        hint = channel_source.choose(
            "add an opaque config of this driver to the claim: a ComputeDomainChannelConfig whose domainID is the metadata.uid of a ComputeDomain in the claim's namespace",
            TEMPLATE_HINT
        ),
        permanent
    )]
    NoConfig {
        /// The request's name.
        request: String,
        /// Source of the device's channel.
        channel_source: ChannelSource,
    },
    /// The config cannot be decoded. The text is the Go driver's.
    #[error("error decoding config parameters")]
    #[advice(from = source, permanent)]
    Config {
        /// Why.
        source: ConfigError,
    },
    /// The config's `domainID` does not have the form of a Kubernetes UID.
    #[error("domainID {domain} is not the UID of a ComputeDomain")]
    #[advice(
        code = "config-domain-id",
        hint = "use the ResourceClaimTemplate that the ComputeDomain's controller creates; in a handwritten claim, set domainID to the ComputeDomain's metadata.uid",
        permanent
    )]
    NotAUid {
        /// The `domainID`.
        domain: DomainUid,
    },
    /// The device is from a `ResourceSlice` that this driver did not publish.
    #[error(
        "{DRIVER_NAME} does not publish device {device} in pool {pool}: the driver publishes channels above 0 in the node's own pool, and channels {} to {} also in the pool of an NVLink clique",
        GROUP_CHANNELS.start(),
        GROUP_CHANNELS.end()
    )]
    #[advice(
        code = "foreign-device",
        hint = "delete the ResourceSlice of that pool, then the claim and its pods",
        permanent
    )]
    ForeignDevice {
        /// The device.
        device: String,
        /// The device's pool.
        pool: String,
    },
    /// The claim is for an IMEX daemon pod. The message begins like the Go driver's.
    #[error(
        "ComputeDomain daemon claims are not supported when imex.mode=hostManaged or driverManaged: this driver's daemons need no claims"
    )]
    #[advice(
        code = "daemon-claim",
        hint = "delete the driver-managed objects of NVIDIA's DRA driver, or install that driver",
        permanent
    )]
    DaemonClaim,
    /// The allocation mode is not `Single`.
    #[error("allocationMode {mode:?} is not supported; only \"Single\" is supported")]
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
        hint = "wait until the pod that uses the device ends; the plugin frees the device at most 3 minutes after the pod and its claim are deleted",
        retry
    )]
    InUse {
        /// The device.
        device: String,
        /// The claim that holds it.
        holder: ClaimRef,
    },
    /// A claim of another owner holds the channel on this node.
    #[error("IMEX channel {channel} is still in use by claim {holder}{}", holder_relation(*.held, *.wanted))]
    #[advice(code = "channel-held", hint = channel_in_use_hint(*held, *wanted), retry)]
    ChannelInUse {
        /// The channel.
        channel: ChannelId,
        /// The claim that holds it.
        holder: ClaimRef,
        /// Source of the holder's channel.
        held: ChannelSource,
        /// Source of the refused claim's channel.
        wanted: ChannelSource,
    },
    /// Each domain needs its own channel, and the controller has not assigned one to this domain yet.
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
    /// The controller reports that the channel in the domain's status does not belong to the domain.
    #[error(
        "IMEX channel {channel} is in the status of the ComputeDomain with UID {domain}, but the ComputeDomain does not own the channel"
    )]
    #[advice(
        code = "channel-not-confirmed",
        hint = "see the ComputeDomain's status, then delete and recreate the ComputeDomain",
        permanent
    )]
    ChannelNotConfirmed {
        /// The domain's UID.
        domain: DomainUid,
        /// The channel.
        channel: ChannelId,
    },
    /// The claim lacks the domain's label. The controller keeps the domain's channel only while a
    /// claim with that label exists.
    #[error(
        "the claim lacks the label {DOMAIN_LABEL}={domain} (the domainID of its config); without this label, the controller may reassign the IMEX channel while the claim uses it"
    )]
    #[advice(code = "claim-not-labelled", hint = TEMPLATE_HINT, permanent)]
    NotLabelled {
        /// The UID of the domain in the claim's config.
        domain: DomainUid,
    },
    /// The claim has the label of another domain. The controller would keep that domain's channel
    /// while the claim exists.
    #[error(
        "the claim has the label {DOMAIN_LABEL}={found}, but the domainID of its config is {domain}: both must name the same ComputeDomain"
    )]
    #[advice(
        code = "claim-not-labelled",
        hint = channel_source.choose("recreate the claim without the label", TEMPLATE_HINT),
        permanent
    )]
    OtherLabel {
        /// The UID of the domain in the claim's config.
        domain: DomainUid,
        /// The label's value.
        found: String,
        /// Source of the claim's channel.
        channel_source: ChannelSource,
    },
    /// The channel number exceeds the channels of this node's driver.
    #[error(
        "IMEX channel {channel} does not exist on this node: the node's NVIDIA driver has {count} channels"
    )]
    #[advice(
        code = "channel-beyond-driver",
        hint = "load the nvidia driver with the same NVreg_ImexChannelCount on every node, and set imex.channelCount to that number",
        permanent
    )]
    BeyondDriver {
        /// The channel.
        channel: ChannelId,
        /// The driver's number of channels.
        count: u32,
    },
    /// The domain does not exist in the claim's namespace.
    #[error("no ComputeDomain with UID {domain} exists in namespace {namespace}")]
    #[advice(
        code = "domain-not-found",
        hint = channel_source.choose(
            "recreate the claim, and set domainID to the metadata.uid of a ComputeDomain in the claim's namespace; a recreated ComputeDomain has a new UID",
            "recreate the pod with a claim from the template of a ComputeDomain in its namespace; a recreated ComputeDomain has a new UID"
        ),
        permanent
    )]
    DomainNotFound {
        /// The domain's UID.
        domain: DomainUid,
        /// The claim's namespace.
        namespace: String,
        /// Source of the claim's channel.
        channel_source: ChannelSource,
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
    /// The device is a channel of a clique that this node does not belong to, or no longer.
    #[error("the claim has a channel of NVLink clique {wanted}, but this node's clique is {own}")]
    #[advice(
        code = "other-clique",
        hint = "delete the pod, so that it is scheduled on a node of the claim's clique; see the node label nvidia.com/gpu.clique",
        retry
    )]
    OtherClique {
        /// The clique of the claim.
        wanted: String,
        /// The clique of the node, or its fabric state.
        own: String,
    },
    /// The fabric state is unknown or pending.
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
    /// The driver-managed IMEX daemon of this node is not ready for claims.
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
        /// Why `/proc/devices` has no major.
        reason: String,
    },
    /// A reason that claims of every driver have.
    #[error(transparent)]
    #[advice(from)]
    Claim(#[from] node_claims::PrepareError),
}

// === impl ChannelSource ===

impl ChannelSource {
    /// Chooses the hint by the source of the claim's channel.
    fn choose(self, own_channel: &'static str, channel_of_domain: &'static str) -> &'static str {
        match self {
            Self::Device => own_channel,
            Self::Domain => channel_of_domain,
        }
    }
}

// === impl PrepareError ===

impl PrepareError {
    /// The claim that holds the device or channel, if that is the cause. It may be deleted already.
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
            "wait until the pod that uses the channel ends; if two ComputeDomains have the same channel, their status says so"
        }
        _ => "wait for the pods on this node that use the claim to end",
    }
}

/// Suffix after the name of the claim that holds the channel.
fn holder_relation(held: ChannelSource, wanted: ChannelSource) -> &'static str {
    match (held, wanted) {
        (ChannelSource::Device, _) => ", to which the channel is allocated",
        (ChannelSource::Domain, ChannelSource::Device) => {
            " of the ComputeDomain that has this channel"
        }
        (ChannelSource::Domain, ChannelSource::Domain) => " of another ComputeDomain",
    }
}
