//! Why nothing, or not everything, was removed.

use std::io;
use std::path::PathBuf;

use dra_checkpoint::DamageReason;
use imex_cdi::ClaimUidError;

use crate::claims::KubeletStateError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum GcError {
    #[error("--live is no claim's UID")]
    Uid(#[source] ClaimUidError),
    #[error("nothing says which claims live: there is no {}", path.display())]
    Absent { path: PathBuf },
    #[error("nothing says which claims live: {} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: DamageReason },
    #[error("claims may be missing in the checkpoint: {} has not been made up for", path.display())]
    Unsettled { path: PathBuf },
    #[error("it is not known which claims kubelet has: {}", path.display())]
    Kubelet {
        path: PathBuf,
        source: KubeletStateError,
    },
    #[error("{} is no checkpoint", path.display())]
    NotACheckpoint { path: PathBuf },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot list {}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error("cannot keep the plugin from preparing claims meanwhile")]
    Lock { source: durable_file::Error },
    #[error("cannot open the directory of the specs")]
    Specs { source: durable_file::Error },
    #[error("{count} specs could not be removed")]
    Left { count: usize },
}

// === impl GcError ===

impl GcError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Uid(_) => 2,
            Self::Absent { .. }
            | Self::Damaged { .. }
            | Self::Unsettled { .. }
            | Self::Kubelet { .. } => 1,
            Self::NotACheckpoint { .. }
            | Self::Read { .. }
            | Self::List { .. }
            | Self::Lock { .. }
            | Self::Specs { .. }
            | Self::Left { .. } => 3,
        }
    }

    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Uid(_) => "kubectl get resourceclaims -A -o custom-columns=UID:.metadata.uid",
            Self::Absent { .. } => {
                "name kubelet's root with --kubelet-root, or every claim that lives on this node \
                 with --live"
            }
            Self::Damaged { .. } | Self::Unsettled { .. } => {
                "let the plugin make up for the damage, or name every claim that lives on this \
                 node with --live"
            }
            Self::Kubelet { .. } => {
                "leave the specs: cdi-gen doctor says what is wrong with kubelet's state"
            }
            Self::NotACheckpoint { .. } => "check --kubelet-root",
            Self::Read { .. } | Self::List { .. } | Self::Specs { .. } | Self::Left { .. } => {
                "run this as root; see that the file system can be written"
            }
            Self::Lock { .. } => {
                "run this as root, check --kubelet-root, and see whether a plugin hangs"
            }
        }
    }
}
