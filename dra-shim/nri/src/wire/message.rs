//! ttrpc messages.
//!
//! ```text
//! | length: u32 | stream: u32 | kind: u8 | flags: u8 | payload: length bytes |      big endian
//! ```
//!
//! NRI has unary methods only: a request and its response, on the same stream. The caller
//! numbers the streams: 1, 3, 5, and so on. Flags matter to streaming methods only.

use super::frame::{ConnectionId, FrameHeader, halves};
use super::limits::{FRAME_HEADER, MAX_MESSAGE, MESSAGE_HEADER};

/// The buffer through which Go's ttrpc reads a connection. Go's multiplexer hands a read
/// one whole frame, and *drops the connection* if the frame is longer than the buffer
/// of the read. So the first frame of a message is no longer than this, and the second
/// has all the rest: Go reads that straight into the message. More and shorter frames
/// would also fit, but 256 that nobody has read yet are the most that Go queues.
const GO_READ_BUFFER: usize = 4096;

/// Flag of a request: no data follow on its stream.
const REMOTE_CLOSED: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Request,
    Response,
    /// Data of a stream, or a kind of the future.
    Other(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) stream: u32,
    pub(crate) kind: MessageKind,
    pub(crate) payload: Vec<u8>,
}

/// A message that cannot be read or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it sent a message of {0} bytes, where {max} are the most", max = MAX_MESSAGE)]
pub(crate) struct MessageError(pub(crate) u32);

/// A message's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageHeader {
    pub(super) length: usize,
    pub(super) stream: u32,
    pub(super) kind: MessageKind,
}

// === impl MessageKind ===

impl MessageKind {
    const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Request,
            2 => Self::Response,
            other => Self::Other(other),
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Response => 2,
            Self::Other(byte) => byte,
        }
    }
}

// === impl MessageHeader ===

impl MessageHeader {
    pub(super) fn decode(bytes: [u8; MESSAGE_HEADER]) -> Result<Self, MessageError> {
        let [numbers @ .., kind, _flags] = bytes;
        let (length, stream) = halves(numbers);
        match usize::try_from(length) {
            Ok(length) if length <= MAX_MESSAGE => Ok(Self {
                length,
                stream,
                kind: MessageKind::from_byte(kind),
            }),
            _ => Err(MessageError(length)),
        }
    }
}

// === impl Message ===

impl Message {
    /// The message as frames of a connection, as NRI in Go can read them.
    pub(crate) fn encode(&self, connection: ConnectionId) -> Result<Vec<u8>, MessageError> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        if self.payload.len() > MAX_MESSAGE {
            return Err(MessageError(length));
        }
        let whole = MESSAGE_HEADER + self.payload.len();
        let first = whole.min(GO_READ_BUFFER);
        let (start, rest) = self.payload.split_at(first - MESSAGE_HEADER);
        let frame = |length| FrameHeader { connection, length }.encode();

        let mut bytes = Vec::with_capacity(whole + 2 * FRAME_HEADER);
        bytes.extend(frame(first));
        bytes.extend(length.to_be_bytes());
        bytes.extend(self.stream.to_be_bytes());
        bytes.push(self.kind.byte());
        bytes.push(match self.kind {
            MessageKind::Request => REMOTE_CLOSED,
            _ => 0,
        });
        bytes.extend(start);
        if !rest.is_empty() {
            bytes.extend(frame(rest.len()));
            bytes.extend(rest);
        }
        Ok(bytes)
    }
}
