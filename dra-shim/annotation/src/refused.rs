//! Why a container is not created: a sentence for the pod's owner.

use durable_file::Error as FileError;
use imex_cdi::{ChannelId, ReadMajorError};

use crate::record::RECORDS_DIR;
use crate::request::{ANNOTATION, NotAChannel};

/// Why a pod does not get the channel that its annotation names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The annotation is no number of a channel.
    #[error(transparent)]
    NotAChannel(#[from] NotAChannel),
    /// The node's list does not have it.
    #[error(
        "the annotation {ANNOTATION} asks for IMEX channel {channel}, which this node does not allow in namespace {namespace}; ask the administrator, who allows channels by namespace"
    )]
    NotAllowed {
        /// The channel.
        channel: ChannelId,
        /// The pod's namespace.
        namespace: String,
    },
    /// A pod of another namespace has it.
    #[error(
        "IMEX channel {channel} is in use on this node by pod {pod} of another namespace; use another channel, or wait until that pod is removed"
    )]
    OtherNamespace {
        /// The channel.
        channel: ChannelId,
        /// `namespace/name`.
        pod: String,
    },
    /// A prepared claim has it.
    #[error(
        "IMEX channel {channel} is in use on this node by ResourceClaim {claim}; use a channel that no ComputeDomain has"
    )]
    Claimed {
        /// The channel.
        channel: ChannelId,
        /// `namespace/name`.
        claim: String,
    },
    /// The runtime's id of the pod's sandbox.
    #[error(
        "the runtime's id of the pod's sandbox, {0:?}, is not one that can be recorded; report it"
    )]
    Sandbox(String),
    /// The checkpoint of the kubelet plugin cannot be used.
    #[error("it is unknown which IMEX channels claims have on this node: {0}; it is tried again")]
    Claims(String),
    /// The records cannot be read or written.
    #[error("the pod's IMEX channel cannot be recorded on this node; it is tried again")]
    Records(#[source] FileError),
    /// A record is none: the pod that it is of may have any channel.
    #[error(
        "it is unknown which IMEX channels are in use on this node: the record {RECORDS_DIR}/{0} is damaged; the administrator can restart imex-annotation, which writes it again"
    )]
    Damaged(String),
    /// The record has no form as text. It never happens.
    #[error("the pod's IMEX channel cannot be recorded on this node; report it")]
    Encode(#[source] serde_json::Error),
    /// Nobody waits for the answer any more.
    #[error("the answer comes too late; it is tried again")]
    Late,
    /// There is no driver.
    #[error("this node has no IMEX channels; load the NVIDIA driver, or let the pod run elsewhere")]
    NoChannels(#[source] ReadMajorError),
    /// The driver has fewer channels.
    #[error(
        "the annotation {ANNOTATION} asks for IMEX channel {channel}, but the node's driver has {count} channels, from 0 on (NVreg_ImexChannelCount)"
    )]
    BeyondDriver {
        /// The channel.
        channel: ChannelId,
        /// How many there are.
        count: u32,
    },
    /// The plan for the container was refused.
    #[error("IMEX channel {channel} cannot be given to the container: {reason}")]
    Plan {
        /// The channel.
        channel: ChannelId,
        /// Why.
        reason: String,
    },
}
