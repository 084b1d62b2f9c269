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

/// Size of the buffer with which Go's ttrpc reads a connection. Go's multiplexer passes one
/// whole frame to a read, and *drops the connection* if the frame is longer than the read's
/// buffer. So the first frame of a message is at most this long, and the second one has the
/// rest, which Go reads directly into the message. More and shorter frames would fit, too, but
/// Go queues at most 256 unread ones.
const GO_READ_BUFFER: usize = 4096;

/// Flag of a request: no data follows on its stream.
const REMOTE_CLOSED: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Request,
    Response,
    /// Stream data, or a future kind.
    Other(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) stream: u32,
    pub(crate) kind: MessageKind,
    pub(crate) payload: Vec<u8>,
}

/// A message that is too long to be read or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message has {0} bytes; the limit is {max}", max = MAX_MESSAGE)]
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
    /// Encodes the message as frames that NRI in Go can read.
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
