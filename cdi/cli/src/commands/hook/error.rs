//! Why a container does not start.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use host_doctor::refusal_hint;

use crate::document::DocumentError;
use crate::host_specs::HostError;
use crate::outcome::{CommandError, Outcome};

#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    /// The sentence, with what to do.
    #[error("{0}")]
    Refused(String),
    /// The file or directory, why, and what to do.
    #[error(
        "it cannot be found out which IMEX channels the container asks for: it names CDI devices, and {0}"
    )]
    Unknown(String),
    #[error("the check of the container's IMEX channels took longer than {} s", .0.as_secs())]
    Late(Duration),
    #[error("cannot read the container's state from standard input")]
    Stdin(#[source] io::Error),
    #[error("standard input is longer than the state of a container is")]
    LongState,
    #[error("standard input is not the state of a container")]
    State(#[source] serde_json::Error),
    #[error(transparent)]
    Config(DocumentError),
    #[error(transparent)]
    Host(HostError),
    #[error("cannot read {path}, which says whose IMEX channels are")]
    Checkpoint { path: String, source: io::Error },
    #[error(
        "the kubelet plugin's checkpoint is damaged, so that it is unknown whose IMEX channels are: {reason}"
    )]
    Damaged { reason: String, hint: &'static str },
}

// === impl HookError ===

impl CommandError for HookError {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(_) => Outcome::Findings,
            _ => Outcome::Io,
        }
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        const RUNTIME: &str = "have an OCI runtime run it as a hook of createRuntime";
        Some(match self {
            Self::Refused(_) | Self::Unknown(_) => return None,
            Self::Late(_) => {
                "look for a file system that does not answer, or raise --timeout".into()
            }
            Self::Stdin(_) | Self::LongState | Self::State(_) => RUNTIME.into(),
            Self::Config(error) => return error.hint(),
            Self::Host(error) => return error.hint(),
            Self::Checkpoint { source, .. } => refusal_hint(source).into(),
            Self::Damaged { hint, .. } => (*hint).into(),
        })
    }
}
