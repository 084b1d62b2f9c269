//! Reads the trunk, and passes requests and responses on.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::OwnedReadHalf;

use super::calls::Calls;
use super::error::TrunkError;
use super::serve::{Serve, Server};
use crate::wire::{Assembler, FRAME_HEADER, FrameHeader};

/// Size of one read. Small, because frames need not be contiguous.
const READ: usize = 16 << 10;

/// Reads until the trunk ends. An invalid frame or message ends it.
// req: NRI-8
pub(super) async fn read<S: Serve>(
    mut stream: OwnedReadHalf,
    server: Server,
    service: Arc<S>,
    calls: Calls,
) -> TrunkError {
    let mut requests = server.requests();
    let mut to_us = Assembler::default();
    let mut to_calls = Assembler::default();
    let mut buffer = vec![0; READ];
    loop {
        let mut header = [0; FRAME_HEADER];
        if let Err(error) = stream.read_exact(&mut header).await {
            return broken(error);
        }
        let header = match FrameHeader::decode(header) {
            Ok(header) => header,
            Err(error) => return error.into(),
        };
        let is_served = header.connection == server.connection();
        let mut left = header.length;
        while left > 0 {
            let room = buffer.get_mut(..left.min(READ)).unwrap_or_default();
            let read = match stream.read(room).await {
                Ok(0) => return TrunkError::Closed,
                Ok(read) => read,
                Err(error) => return broken(error),
            };
            left -= read;
            let mut bytes = buffer.get(..read).unwrap_or_default();
            let assembler = if is_served { &mut to_us } else { &mut to_calls };
            loop {
                match assembler.next(&mut bytes) {
                    Ok(None) => break,
                    Ok(Some(message)) if is_served => requests.take(message, &service).await,
                    Ok(Some(message)) => calls.answered(message),
                    Err(error) => return error.into(),
                }
            }
        }
    }
}

fn broken(error: io::Error) -> TrunkError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => TrunkError::Closed,
        _ => TrunkError::Io(error),
    }
}
