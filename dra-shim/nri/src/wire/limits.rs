//! Sizes on the wire, in bytes.

/// Size of a frame's header.
pub(crate) const FRAME_HEADER: usize = 8;

/// Size of a message's header.
pub(super) const MESSAGE_HEADER: usize = 10;

/// Maximum payload of a message, as in other ttrpc implementations.
pub(super) const MAX_MESSAGE: usize = 4 << 20;

/// Maximum payload of a frame: one ttrpc message, as in NRI's own multiplexer.
pub(super) const MAX_FRAME: usize = MESSAGE_HEADER + MAX_MESSAGE;
