//! Why a checkpoint is not shown.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use dra_checkpoint::{CHECKPOINT_FILE, EncodeError};

use crate::input::InputError;
use crate::outcome::{CommandError, Outcome};

#[derive(Debug, thiserror::Error)]
pub(super) enum CheckpointError {
    #[error(transparent)]
    Input(InputError),
    #[error("cannot read {}", path.display())]
    Missing {
        path: PathBuf,
        /// Damaged files that had its name.
        set_aside: Vec<PathBuf>,
        source: io::Error,
    },
    #[error("{} is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{} is the checkpoint of another driver ({drivers})", path.display())]
    Foreign { path: PathBuf, drivers: String },
    #[error("--canonical prints the bytes of one file, and {count} are named")]
    Many { count: usize },
    #[error("cannot encode {}", path.display())]
    Encode { path: PathBuf, source: EncodeError },
}

// === impl CheckpointError ===

impl CommandError for CheckpointError {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Damaged { .. } | Self::Encode { .. } => Outcome::Findings,
            Self::Many { .. } => Outcome::Usage,
            Self::Input(_) | Self::Missing { .. } | Self::Foreign { .. } => Outcome::Io,
        }
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Missing { set_aside, .. } if !set_aside.is_empty() => {
                return Some(see_instead(set_aside).into());
            }
            Self::Input(InputError::Directory { path }) => {
                let file = path.join(CHECKPOINT_FILE);
                return Some(format!("pass the file in it, e.g. {}", file.display()).into());
            }
            Self::Missing { .. } => {
                "check the path, or name kubelet's root with --kubelet-root (the plugin's \
                 --kubelet-root, if it is not /var/lib/kubelet) and the host's with --root; the \
                 plugin writes the file when it first prepares a claim"
            }
            Self::Input(InputError::Io { source, .. }) => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "the plugin's files belong to root: run this as root, or on a copy"
                }
                _ => return None,
            },
            Self::Input(InputError::TooLarge { .. }) => {
                "no checkpoint is that large (a thousand claims take about 2 MB): check the path"
            }
            Self::Damaged { .. } => "`cdi-gen checkpoint show` prints what survives",
            Self::Foreign { .. } => "only that driver knows the bytes that it would write",
            Self::Many { .. } => "name one file",
            Self::Encode { .. } => "report it, with the file",
        };
        Some(hint.into())
    }
}

/// The damaged files to look at instead of the one that is gone.
fn see_instead(set_aside: &[PathBuf]) -> String {
    let names: Vec<_> = set_aside
        .iter()
        .map(|path| path.to_string_lossy())
        .collect();
    format!(
        "a plugin found it damaged and set it aside; see {}",
        names.join(", ")
    )
}
