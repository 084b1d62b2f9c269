use std::io;
use std::sync::Arc;
use std::time::Duration;

use dra_common::{Advice, Class};

use crate::claims::Refused;
use crate::format::EncodeError;

/// Why the store could not be opened or a commit not be made durable.
///
/// Cheap to clone: every change that shared a failed write gets its own.
#[derive(Debug, Clone, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "find what holds the lock or slows the disk of the checkpoint down")]
pub enum StoreError {
    /// The disk or the lock failed.
    #[error("cannot {action} the checkpoint{}", at(source))]
    #[advice(from = source)]
    Storage {
        /// The action that failed: "lock", "read", "write", "set aside".
        action: &'static str,
        /// Why it failed.
        #[source]
        source: Arc<durable_file::Error>,
    },
    /// The caller's payload cannot be written, or not be read back. The change
    /// leaves no trace.
    #[error("the checkpoint cannot be encoded")]
    #[advice(from, permanent)]
    Encode(#[source] Arc<EncodeError>),
    /// The system has no thread for the store's writer.
    #[error("cannot start the checkpoint's writer thread")]
    #[advice(
        code = "no-thread",
        hint = "raise the limit of threads (pids) of this process's container",
        retry
    )]
    NoThread(#[source] Arc<io::Error>),
    /// Too many changes wait for the writer. This one was not run.
    #[error("{waiting} changes of the checkpoint are waiting already")]
    #[advice(code = "checkpoint-queue-full", retry)]
    QueueFull {
        /// How many may wait.
        waiting: usize,
    },
    /// The writer did not reach this change in time: another process has the
    /// lock, or the disk hangs. It was not run and will not be.
    #[error("the checkpoint's writer did not reach the change within {} ms", limit.as_millis())]
    #[advice(code = "checkpoint-busy", retry)]
    NotBegun {
        /// How long the caller waited.
        limit: Duration,
    },
    /// The change was started, and was not durable in time. It may become so.
    #[error("the change of the checkpoint was not durable within {} ms", limit.as_millis())]
    #[advice(code = "checkpoint-slow", retry)]
    Unanswered {
        /// How long the caller waited.
        limit: Duration,
    },
    /// The writer panicked. It continues with the next commit.
    #[error("the checkpoint's writer panicked during the commit")]
    #[advice(
        code = "checkpoint-writer-panicked",
        hint = "report it with the log: most likely the driver's payload type is at fault",
        retry
    )]
    WriterPanicked,
}

/// Why a commit did not return the change's answer.
///
/// `code`, `hint` and `class` are those of what is in it, for a change that
/// fails with [`Refused`]. One with an error of its own is matched:
///
/// ```
/// # use dra_checkpoint::CommitError;
/// # struct PrepareError(&'static str);
/// # impl PrepareError { fn code(&self) -> &'static str { self.0 } }
/// fn code(error: &CommitError<PrepareError>) -> &'static str {
///     match error {
///         CommitError::Refused(own) => own.code(),
///         CommitError::Store(store) => store.code(),
///     }
/// }
/// # assert_eq!(code(&CommitError::Refused(PrepareError("no-clique"))), "no-clique");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum CommitError<E> {
    /// The change returned an error: its own, or a refusal of [`Claims`](crate::Claims).
    #[error(transparent)]
    Refused(E),
    /// The change could not be made durable. It may still be visible, to us
    /// and to others; the next successful commit makes it durable or undoes it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The path at which it failed, which the source has too, with the step.
fn at(source: &durable_file::Error) -> String {
    match source {
        durable_file::Error::NotAFile { path }
        | durable_file::Error::Io { path, .. }
        | durable_file::Error::LockTimeout { path, .. } => format!(" ({})", path.display()),
        _ => String::new(),
    }
}

impl From<EncodeError> for StoreError {
    fn from(source: EncodeError) -> Self {
        Self::Encode(Arc::new(source))
    }
}

// === impl CommitError ===

impl CommitError<Refused> {
    /// A stable word for metrics and events.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refused) => refused.code(),
            Self::Store(error) => error.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Refused(refused) => refused.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    /// Whether repeating the call can help.
    pub fn class(&self) -> Class {
        match self {
            Self::Refused(refused) => refused.class(),
            Self::Store(error) => error.class(),
        }
    }
}

/// For `map_err`: the action that failed.
pub(crate) fn storage(action: &'static str) -> impl Fn(durable_file::Error) -> StoreError {
    move |source| StoreError::Storage {
        action,
        source: Arc::new(source),
    }
}
