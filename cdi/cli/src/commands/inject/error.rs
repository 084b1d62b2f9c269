//! Why a config was not changed.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use imex_cdi::PlanError;

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, thiserror::Error)]
pub(super) enum InjectError {
    #[error("standard input cannot be changed in place")]
    StdinInPlace,
    #[error(transparent)]
    Plan(PlanError),
    #[error("cannot examine {}", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        source: durable_file::Error,
    },
}

// === impl InjectError ===

impl CommandError for InjectError {
    fn outcome(&self) -> Outcome {
        match self {
            Self::StdinInPlace => Outcome::Usage,
            // The device's spec needs something that the host lacks.
            Self::Plan(_) => Outcome::Findings,
            Self::Look { .. } | Self::NotAFile { .. } | Self::Write { .. } => Outcome::Io,
        }
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::StdinInPlace => "leave --in-place out: the result is on stdout then",
            Self::Plan(error) => error.hint(),
            Self::Look { .. } => return None,
            Self::NotAFile { .. } => "pass the file, or leave --in-place out",
            Self::Write { source, .. } => source.hint(),
        };
        Some(hint.into())
    }
}
