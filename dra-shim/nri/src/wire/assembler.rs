//! Assembles messages from the bytes of one connection, however they are split into frames.

use super::limits::MESSAGE_HEADER;
use super::message::{Message, MessageError, MessageHeader};

/// Assembles the messages of one connection. It holds only the received bytes of one message;
/// it never reserves memory for the length in a header.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    /// The received part of a header.
    header: Vec<u8>,
    /// A message with a complete header, and its payload so far.
    message: Option<(MessageHeader, Vec<u8>)>,
}

// === impl Assembler ===

impl Assembler {
    /// Takes bytes from the front of `bytes` until a message is complete. `None`: all bytes are
    /// taken. After an error the connection is unusable.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Message>, MessageError> {
        let (header, mut payload) = if let Some(message) = self.message.take() {
            message
        } else {
            let missing = MESSAGE_HEADER - self.header.len();
            self.header.extend(take(bytes, missing));
            let Ok(header) = <[u8; MESSAGE_HEADER]>::try_from(self.header.as_slice()) else {
                return Ok(None);
            };
            self.header.clear();
            (MessageHeader::decode(header)?, Vec::new())
        };
        payload.extend(take(bytes, header.length - payload.len()));
        if payload.len() < header.length {
            self.message = Some((header, payload));
            return Ok(None);
        }
        Ok(Some(Message {
            stream: header.stream,
            kind: header.kind,
            payload,
        }))
    }
}

/// At most `count` bytes from the front.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    taken
}
