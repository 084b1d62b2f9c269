//! How a command ends: its exit code and, if it failed, the line on stderr.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use dra_common::error_chain;

use crate::terminal;

/// The exit codes of all commands.
// req: DOCTOR-9
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing is wrong.
    Clean,
    /// Something is wrong, and the output says what.
    Findings,
    /// The command line is invalid.
    Usage,
    /// A file cannot be read or written, or is not what the command needs.
    Io,
    /// A CDI name does not resolve.
    Unresolved,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) outcome: Outcome,
    /// What failed, and why: the first part of the line on stderr.
    pub(crate) message: String,
    /// What to do about it: the second part.
    pub(crate) hint: Option<Cow<'static, str>>,
    /// Lines that follow.
    pub(crate) details: Vec<String>,
}

// === impl Outcome ===

impl Outcome {
    /// The outcome of a command that has printed its findings.
    pub(crate) fn of(is_clean: bool) -> Self {
        if is_clean {
            Self::Clean
        } else {
            Self::Findings
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Clean => 0,
            Outcome::Findings => 1,
            Outcome::Usage => 2,
            Outcome::Io => 3,
            Outcome::Unresolved => 4,
        })
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            message: message.into(),
            hint: None,
            details: vec![],
        }
    }

    /// `what` failed because of `cause` and its sources.
    pub(crate) fn caused_by(outcome: Outcome, what: impl Display, cause: &dyn Error) -> Self {
        Self::new(outcome, format!("{what}: {}", error_chain(cause)))
    }

    /// The failure for named files that cannot be read; each was reported before.
    pub(crate) fn unread(unread: usize, files: usize) -> Self {
        Self::new(
            Outcome::Io,
            format!("{unread} of {files} files cannot be read"),
        )
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "`map_err` passes the error by value"
    )]
    pub(crate) fn stdout(error: io::Error) -> Self {
        Self::caused_by(Outcome::Io, "cannot write to stdout", &error)
    }

    pub(crate) fn hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// One line on stderr: what, why, the fix. Details follow it.
    pub(crate) fn report(&self) {
        let message = &self.message;
        match &self.hint {
            Some(hint) => terminal::note(&format!("{message}; {hint}")),
            None => terminal::note(message),
        }
        for detail in &self.details {
            terminal::line(detail);
        }
    }
}
