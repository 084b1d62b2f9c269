use durable_file::Class;

use crate::format::EncodeError;

/// Why the store could not be opened or a commit not be made durable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk, or the lock, did not let us.
    #[error("cannot {action} the checkpoint")]
    Storage {
        /// What was tried: "lock", "read", "write", "set aside".
        action: &'static str,
        /// Why it failed.
        #[source]
        source: durable_file::Error,
    },
    /// The caller's payload cannot be written.
    #[error("the checkpoint cannot be encoded")]
    Encode(#[from] EncodeError),
}

/// Why a commit left the checkpoint as it was.
#[derive(Debug, thiserror::Error)]
pub enum CommitError<E> {
    /// The caller's change was refused, by itself or by the claims' states.
    #[error(transparent)]
    Refused(E),
    /// The change could not be made durable. It may still be visible, to us
    /// and to others; the next successful commit makes it durable or undoes it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

// === impl StoreError ===

impl StoreError {
    /// A stable word for metrics and events.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Storage { source, .. } => source.code(),
            Self::Encode(source) => source.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Storage { source, .. } => source.hint(),
            Self::Encode(_) => "report it: the driver's payload type is at fault",
        }
    }

    /// Whether repeating the call can help.
    pub fn class(&self) -> Class {
        match self {
            Self::Storage { source, .. } => source.class(),
            Self::Encode(_) => Class::Permanent,
        }
    }
}

/// For `map_err`: what was tried when the directory failed.
pub(crate) fn storage(action: &'static str) -> impl Fn(durable_file::Error) -> StoreError {
    move |source| StoreError::Storage { action, source }
}
