use std::io;
use std::sync::Arc;
use std::time::Duration;

use dra_common::{Advice, Class};

use crate::claims::Refused;
use crate::format::EncodeError;

/// Why the store could not be opened or a commit could not be made durable.
///
/// Cheap to clone: every change in a failed batch gets its own copy.
#[derive(Debug, Clone, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "find the process that holds the checkpoint's lock, or the cause of the slow disk")]
pub enum StoreError {
    /// The disk or the lock failed.
    #[error("cannot {action} the checkpoint{}", at(source))]
    #[advice(from = source)]
    Storage {
        /// The action that failed: "lock", "read", "write", "set aside".
        action: &'static str,
        /// The cause.
        #[source]
        source: Arc<durable_file::Error>,
    },
    /// The caller's payload cannot be written, or cannot be read back. The
    /// change is rolled back.
    #[error("the checkpoint cannot be encoded")]
    #[advice(from, permanent)]
    Encode(#[source] Arc<EncodeError>),
    /// The system refused to start the store's writer thread.
    #[error("cannot start the checkpoint's writer thread")]
    #[advice(
        code = "no-thread",
        hint = "raise the pids limit of this process's container",
        retry
    )]
    NoThread(#[source] Arc<io::Error>),
    /// Too many changes wait for the writer. This one was not run.
    #[error("the checkpoint's queue is full: {waiting} changes are waiting")]
    #[advice(code = "checkpoint-queue-full", retry)]
    QueueFull {
        /// The queue's limit.
        waiting: usize,
    },
    /// The change timed out in the writer's queue: another process has the
    /// lock, or the disk hangs. It was not run and never will be.
    #[error("the checkpoint's writer did not start the change within {} ms", limit.as_millis())]
    #[advice(code = "checkpoint-busy", retry)]
    NotBegun {
        /// How long the caller waited.
        limit: Duration,
    },
    /// The change was started but was not durable in time. It may still become durable.
    #[error("the checkpoint change was not durable within {} ms", limit.as_millis())]
    #[advice(code = "checkpoint-slow", retry)]
    Unanswered {
        /// How long the caller waited.
        limit: Duration,
    },
    /// The writer panicked. It continues with the next commit.
    #[error("the checkpoint's writer panicked during the commit")]
    #[advice(
        code = "checkpoint-writer-panicked",
        hint = "this is a bug, most likely in the driver's payload type; please report it with this log",
        retry
    )]
    WriterPanicked,
}

/// Why a commit did not return the change's result.
///
/// If the change fails with [`Refused`], `code`, `hint` and `class` are those
/// of the inner error. If it has an error type of its own, match on the variant:
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
    /// The change could not be made durable. This and other processes may still
    /// see it; the next successful commit makes it durable or undoes it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The path of the failed operation. The source's text has it too, with the step.
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

    /// Whether a retry can succeed.
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
