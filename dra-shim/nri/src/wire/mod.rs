//! The bytes on the socket, without I/O: frames of several connections on one trunk, and
//! the ttrpc messages in them.

mod assembler;
mod envelope;
mod frame;
mod limits;
mod message;
#[cfg(test)]
mod property_tests;

pub(crate) use assembler::Assembler;
pub(crate) use envelope::{Code, Request, Response, Status};
pub(crate) use frame::{ConnectionId, FrameError, FrameHeader};
pub(crate) use limits::FRAME_HEADER;
pub(crate) use message::{Message, MessageError, MessageKind};
