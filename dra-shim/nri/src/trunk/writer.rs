//! Writes the trunk: whole messages, one after the other.

use std::io;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::error::{STALLED, TrunkError};

/// Writes the queue's encoded messages until the trunk ends.
pub(super) async fn write(
    mut stream: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Vec<u8>>,
) -> TrunkError {
    while let Some(message) = queue.recv().await {
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            match timeout(STALLED, stream.write(rest)).await {
                Ok(Ok(written)) => rest = rest.get(written..).unwrap_or_default(),
                Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return TrunkError::Closed;
                }
                Ok(Err(error)) => return TrunkError::Io(error),
                Err(_) => return TrunkError::NotRead,
            }
        }
    }
    TrunkError::Closed
}
