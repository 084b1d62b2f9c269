//! The sizes on the wire, in bytes.

/// A frame's header.
pub(crate) const FRAME_HEADER: usize = 8;

/// A message's header.
pub(super) const MESSAGE_HEADER: usize = 10;

/// The largest payload of a message, as in ttrpc's other implementations.
pub(super) const MAX_MESSAGE: usize = 4 << 20;

/// A frame's payload is one ttrpc message at most, as in NRI's own multiplexer.
pub(super) const MAX_FRAME: usize = MESSAGE_HEADER + MAX_MESSAGE;
