//! How a command ends.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use compute_domain_node::with_sources;
use dra_checkpoint::EncodeError;

use crate::output::printable;

/// What a command that ran to its end has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing is wrong.
    Clean,
    /// Something is, and the output says what.
    Findings,
}

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Each was reported when it was met.
    #[error("{files} of the files cannot be read")]
    ReadSome { files: usize },
    #[error("cannot write to stdout")]
    Output(#[source] io::Error),
    #[error("{} is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("cannot encode {}", path.display())]
    Encode { path: PathBuf, source: EncodeError },
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Clean => ExitCode::SUCCESS,
            Self::Findings => ExitCode::from(1),
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Damaged { .. } | Self::Encode { .. } => ExitCode::from(1),
            Self::Read { .. } | Self::ReadSome { .. } | Self::Output(_) => ExitCode::from(3),
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    Some("the plugin's files belong to root: run this as root, or on a copy")
                }
                io::ErrorKind::NotFound => {
                    Some("the plugin writes it when it first prepares a claim")
                }
                io::ErrorKind::IsADirectory => Some("name the checkpoint.json in it"),
                _ => None,
            },
            Self::Damaged { .. } => Some("`cdi-gen checkpoint show` prints what survives"),
            Self::Encode { .. } => Some("report it, with the file"),
            Self::ReadSome { .. } | Self::Output(_) => None,
        }
    }

    /// One line on stderr: what, why, the fix.
    pub(crate) fn report(&self) {
        let what = printable(&with_sources(self));
        let fix = self
            .hint()
            .map_or_else(String::new, |hint| format!("; {hint}"));
        // There is nowhere left to say that stderr is closed.
        let _ = writeln!(io::stderr(), "cdi-gen: {what}{fix}");
    }
}
