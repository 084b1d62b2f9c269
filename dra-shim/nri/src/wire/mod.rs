//! The bytes on the socket, without I/O: frames of several connections on one trunk, and
//! the ttrpc messages in them.

mod assembler;
mod envelope;
mod frame;
mod message;
#[cfg(test)]
mod property_tests;

pub(crate) use assembler::Assembler;
pub(crate) use envelope::{Code, Request, Response, Status};
pub(crate) use frame::{ConnectionId, FRAME_HEADER, FrameError, FrameHeader};
pub(crate) use message::{MAX_MESSAGE, Message, MessageError, MessageKind};
