//! Why nothing, or not everything, was removed.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use dra_checkpoint::DamageReason;
use host_doctor::{KubeletStateError, refusal_hint, system_error};
use imex_cdi::{ClaimSpecsError, ClaimUidError};

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, thiserror::Error)]
pub(super) enum GcError {
    #[error("--live is not a claim's UID")]
    Uid(#[source] ClaimUidError),
    #[error("it is unknown which claims live: there is no {}", path.display())]
    Absent { path: PathBuf },
    #[error("it is unknown which claims live: {} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: DamageReason },
    #[error("claims may be missing in the checkpoint: the plugin has not recovered from {}", path.display())]
    Unsettled { path: PathBuf },
    #[error("it is unknown which claims kubelet has: {}", path.display())]
    Kubelet {
        path: PathBuf,
        source: KubeletStateError,
    },
    #[error("{} is not a checkpoint", path.display())]
    NotACheckpoint { path: PathBuf },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot open the directory of specs {}", path.display())]
    Dir { path: PathBuf, source: io::Error },
    #[error("cannot list {}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error("cannot take the plugin's lock")]
    Lock { source: durable_file::Error },
    #[error("cannot open the directory of the specs")]
    Specs { source: durable_file::Error },
    /// Each was reported with its reason.
    #[error("specs that could not be removed: {count}")]
    Left {
        count: usize,
        first: ClaimSpecsError,
    },
}

// === impl GcError ===

impl CommandError for GcError {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Uid(_) => Outcome::Usage,
            Self::Absent { .. }
            | Self::Damaged { .. }
            | Self::Unsettled { .. }
            | Self::Kubelet { .. } => Outcome::Findings,
            Self::NotACheckpoint { .. }
            | Self::Read { .. }
            | Self::Dir { .. }
            | Self::List { .. }
            | Self::Lock { .. }
            | Self::Specs { .. }
            | Self::Left { .. } => Outcome::Io,
        }
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Uid(_) => "kubectl get resourceclaims -A -o custom-columns=UID:.metadata.uid",
            Self::Absent { .. } => {
                "name kubelet's root with --kubelet-root (MicroK8s: \
                 /var/snap/microk8s/common/var/lib/kubelet, k0s: /var/lib/k0s/kubelet), or every \
                 claim that lives on this node with --live"
            }
            Self::Damaged { .. } | Self::Unsettled { .. } => {
                "let the plugin recover, or name every claim that lives on this \
                 node with --live"
            }
            Self::Kubelet { .. } => {
                "leave the specs: doctor, with the same --root and --kubelet-root, says what is \
                 wrong with kubelet's state"
            }
            Self::NotACheckpoint { .. } => "check --kubelet-root",
            Self::Dir { .. } => "check what --cdi-dir and --root name",
            Self::Read { source, .. } | Self::List { source, .. } => refusal_hint(source),
            Self::Specs { source } => refusal_hint(source),
            Self::Lock { source } => of_lock(source),
            Self::Left { first, .. } => refusal_hint(first),
        };
        Some(hint.into())
    }
}

fn of_lock(error: &durable_file::Error) -> &'static str {
    match (error, system_error(error).map(io::Error::kind)) {
        (durable_file::Error::LockTimeout { .. }, _) => {
            "a plugin that has its lock for so long hangs: see its log, restart it"
        }
        (_, Some(io::ErrorKind::NotFound)) => "check --kubelet-root and --root",
        _ => refusal_hint(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_found_below_what_a_library_makes_of_it() {
        let missing = durable_file::OsDir::open("/no/such/directory").unwrap_err();
        assert_eq!(of_lock(&missing), "check --kubelet-root and --root");
    }
}
