//! Why nothing, or not everything, was removed.

use std::borrow::Cow;
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::{fs, io};

use dra_checkpoint::DamageReason;
use imex_cdi::{ClaimSpecsError, ClaimUidError};

use crate::claims::KubeletStateError;
use crate::outcome::{CommandError, Outcome};

/// What the system says of a file with an attribute, such as that it is
/// immutable, that keeps root away too (`EPERM`). Where only rights are missing
/// it says `EACCES`.
const NOT_PERMITTED: i32 = 1;

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
    #[error("cannot look into the directory of specs {}", path.display())]
    Dir { path: PathBuf, source: io::Error },
    #[error("cannot list {}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error("cannot keep the plugin from preparing claims meanwhile")]
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
                "let the plugin make up for the damage, or name every claim that lives on this \
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
    match (error, of_system(error).map(io::Error::kind)) {
        (durable_file::Error::LockTimeout { .. }, _) => {
            "a plugin that has its lock for so long hangs: see its log, restart it"
        }
        (_, Some(io::ErrorKind::NotFound)) => "check --kubelet-root and --root",
        _ => refusal_hint(error),
    }
}

/// What to do about what the system refused this process.
pub(crate) fn refusal_hint(error: &(dyn Error + 'static)) -> &'static str {
    of_refusal(error, is_root())
}

/// What root is refused too is not mended by being root.
fn of_refusal(error: &(dyn Error + 'static), is_root: bool) -> &'static str {
    let Some(error) = of_system(error) else {
        return "see what stands in its place";
    };
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::ReadOnlyFilesystem, _) => {
            "its file system can only be read here: run this on the host, or mount the host's root \
             writable into this container"
        }
        (io::ErrorKind::PermissionDenied, _) if !is_root => "run this as root",
        (_, Some(NOT_PERMITTED)) => {
            "root is refused it too: look for an immutable or append-only attribute of the file and \
             its directory (lsattr -d, chattr -ia)"
        }
        (io::ErrorKind::PermissionDenied, _) => {
            "root is refused it here: run this on the host, outside a container or user namespace, \
             and look for what SELinux denies (dmesg)"
        }
        _ => "see what stands in its place, and whether the kernel log tells of its disk",
    }
}

/// What the system said, below what was made of it.
fn of_system<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut cause = error;
    loop {
        match cause.downcast_ref() {
            Some(said) => return Some(said),
            None => cause = cause.source()?,
        }
    }
}

/// Whether this process is root's.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_be_root() {
        let hint = |number, is_root| of_refusal(&io::Error::from_raw_os_error(number), is_root);
        let (not_permitted, no_rights, read_only) = (NOT_PERMITTED, 13, 30);
        assert_eq!(hint(not_permitted, false), "run this as root");
        assert_eq!(hint(no_rights, false), "run this as root");
        for (number, word) in [
            (not_permitted, "chattr"),
            (no_rights, "SELinux"),
            (read_only, "writable"),
            (5, "disk"),
        ] {
            let hint = hint(number, true);
            assert!(hint.contains(word) && !hint.contains("as root"), "{hint}");
        }
        assert!(hint(read_only, false).contains("writable"));
    }

    #[test]
    fn the_reason_is_found_below_what_a_library_makes_of_it() {
        let missing = durable_file::OsDir::open("/no/such/directory").unwrap_err();
        assert_eq!(of_lock(&missing), "check --kubelet-root and --root");
    }
}
