//! Why a trunk ended.

use std::io;
use std::time::Duration;

use crate::wire::{FrameError, MessageError};

/// How long a peer may read nothing while messages are pending.
pub(super) const STALLED: Duration = Duration::from_secs(10);

/// Why a trunk ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TrunkError {
    #[error("the connection was closed")]
    Closed,
    #[error("the connection broke")]
    Io(#[source] io::Error),
    #[error("the peer does not speak NRI: {0}")]
    Frame(#[from] FrameError),
    #[error("the peer does not speak NRI: {0}")]
    Message(#[from] MessageError),
    #[error("the peer has not read from the connection for {} s", STALLED.as_secs())]
    NotRead,
}
