//! What to do about a claim that is not prepared.

use crate::error::{Asked, PrepareError};

impl PrepareError {
    /// What to do about it; empty where there is nothing but to wait.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOneResult {
                asked: Asked::OwnChannel,
                ..
            } => "request one device of the class compute-domain-clique-channel.nvidia.com",
            Self::NoConfig {
                asked: Asked::OwnChannel,
                ..
            } => {
                "give the claim the config of a ComputeDomain in its namespace: an opaque one of this driver, a ComputeDomainChannelConfig with the ComputeDomain's metadata.uid as domainID"
            }
            Self::OtherLabel {
                asked: Asked::OwnChannel,
                ..
            } => "create the claim again, without the label",
            Self::NotOneResult { .. }
            | Self::NoConfig { .. }
            | Self::NotAChannel { .. }
            | Self::NotLabelled { .. }
            | Self::OtherLabel { .. }
            | Self::AdminAccess => {
                "use the ResourceClaimTemplate that the ComputeDomain's controller creates"
            }
            Self::Config { source } => source.hint(),
            Self::NotAUid { .. } => {
                "use the ResourceClaimTemplate that the ComputeDomain's controller creates, or in a claim written by hand the ComputeDomain's metadata.uid"
            }
            Self::ForeignDevice { .. } => {
                "delete the ResourceSlice of that pool, and then the claim and its pods"
            }
            Self::DaemonClaim => {
                "delete the driver-managed objects, or install the driver that serves them"
            }
            Self::AllocationMode { .. } => {
                "set spec.channel.allocationMode: Single in a new ComputeDomain"
            }
            Self::InUse { .. } => {
                "the device is free when the pod that uses it has ended, and at most 3 minutes after it and its claim were deleted"
            }
            Self::ChannelInUse {
                held: Asked::ChannelOfDomain,
                wanted: Asked::ChannelOfDomain,
                ..
            } => {
                "the channel is free when the pod that uses it has ended; two ComputeDomains with one channel say so in their status"
            }
            Self::ChannelInUse { .. } => {
                "the channel is free when the pods of that claim on this node have ended"
            }
            Self::NoChannelYet { .. } => "see the ComputeDomain's status",
            Self::ChannelNotConfirmed { .. } => {
                "see the ComputeDomain's status; delete it and create it again"
            }
            Self::BeyondDriver { .. } => {
                "load the nvidia driver with the same NVreg_ImexChannelCount on every node, and give it to the controller as imex.channelCount"
            }
            Self::DomainNotFound {
                asked: Asked::OwnChannel,
                ..
            } => {
                "create the claim again, with the metadata.uid of a ComputeDomain in its namespace as domainID; one that was deleted and created again has another UID"
            }
            Self::DomainNotFound { .. } => {
                "create the pod again with a claim of the template of a ComputeDomain in its namespace; one that was deleted and created again has another UID"
            }
            Self::NoClique { .. } => "schedule the pod on a node of a multi-node NVLink fabric",
            Self::OtherClique { .. } => {
                "delete the pod, so that it is scheduled on a node of its claim's clique; see the node's label nvidia.com/gpu.clique"
            }
            Self::Daemon(source) => source.hint(),
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
            Self::BadClaim { .. } => "create the pod again, so that it gets a new claim",
            Self::Aborted | Self::NeedsRecovery => "",
        }
    }
}
