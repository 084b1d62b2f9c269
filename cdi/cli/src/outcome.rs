//! How a command ends: its exit code and, if it failed, the line on stderr.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::process::ExitCode;

use dra_common::error_chain;

use crate::stderr;

/// The exit codes of all commands.
// req: DOCTOR-9
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing is wrong.
    Clean,
    /// Something is wrong, and the output says what.
    Findings,
    /// The command line makes no sense.
    Usage,
    /// A file cannot be read or written, or is not what the command needs.
    Io,
    /// A CDI name does not resolve.
    Unresolved,
}

/// The error of a command. Its `Display` and its sources are the first part of
/// the line on stderr.
pub(crate) trait CommandError: Error + 'static {
    /// How the command ends with it: the exit code.
    fn outcome(&self) -> Outcome;

    /// What to do about it: the second part of the line.
    fn hint(&self) -> Option<Cow<'static, str>> {
        None
    }

    /// Lines that follow.
    fn details(&self) -> &[String] {
        &[]
    }
}

/// Why a command failed: any [`CommandError`].
#[derive(Debug)]
pub(crate) struct Failure(Box<dyn CommandError>);

/// Some of the files that were named could not be read; each was reported.
#[derive(Debug, Default, thiserror::Error)]
#[error("{unread} of {files} files cannot be read")]
pub(crate) struct UnreadFiles {
    pub(crate) unread: usize,
    pub(crate) files: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout")]
struct StdoutError(#[source] io::Error);

// === impl Outcome ===

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
    pub(crate) fn stdout(error: io::Error) -> Self {
        StdoutError(error).into()
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.0.outcome()
    }

    /// One line on stderr: what, why, the fix. Details follow it.
    pub(crate) fn report(&self) {
        let Self(error) = self;
        let message = error_chain(error.as_ref());
        match error.hint() {
            Some(hint) => stderr::note(&format!("{message}; {hint}")),
            None => stderr::note(&message),
        }
        for detail in error.details() {
            stderr::line(detail);
        }
    }
}

impl<E: CommandError> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

// === impl UnreadFiles ===

impl CommandError for UnreadFiles {
    fn outcome(&self) -> Outcome {
        Outcome::Io
    }
}

// === impl StdoutError ===

impl CommandError for StdoutError {
    fn outcome(&self) -> Outcome {
        Outcome::Io
    }
}
