//! Frames, in which a trunk multiplexes two connections.
//!
//! ```text
//! | connection: u32 | length: u32 | payload: length bytes |      big endian
//! ```

use super::limits::{FRAME_HEADER, MAX_FRAME};

/// The connection of a trunk to which a frame belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionId {
    /// The runtime calls, the plugin serves.
    Plugin,
    /// The plugin calls, the runtime serves.
    Runtime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) connection: ConnectionId,
    /// At most [`MAX_FRAME`].
    pub(crate) length: usize,
}

/// Bytes that are not an NRI frame. The next frame cannot be found after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the frame has {0} bytes; the limit is {max}", max = MAX_FRAME)]
    TooLong(u32),
    #[error("frame for connection {0}, but only connections 1 and 2 exist")]
    UnknownConnection(u32),
}

// === impl ConnectionId ===

impl ConnectionId {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Plugin => 1,
            Self::Runtime => 2,
        }
    }

    const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Plugin),
            2 => Some(Self::Runtime),
            _ => None,
        }
    }
}

/// Decodes two numbers, with which both headers begin.
pub(super) fn halves(bytes: [u8; 8]) -> (u32, u32) {
    let both = u64::from_be_bytes(bytes);
    let half = |half: u64| u32::try_from(half & u64::from(u32::MAX)).unwrap_or_default();
    (half(both >> 32), half(both))
}

// === impl FrameHeader ===

impl FrameHeader {
    pub(crate) fn encode(self) -> [u8; FRAME_HEADER] {
        // This library's frames are never longer than MAX_FRAME.
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        let both = u64::from(self.connection.number()) << 32 | u64::from(length);
        both.to_be_bytes()
    }

    // req: NRI-6
    pub(crate) fn decode(bytes: [u8; FRAME_HEADER]) -> Result<Self, FrameError> {
        let (number, length) = halves(bytes);
        let connection =
            ConnectionId::from_number(number).ok_or(FrameError::UnknownConnection(number))?;
        match usize::try_from(length) {
            Ok(length) if length <= MAX_FRAME => Ok(Self { connection, length }),
            _ => Err(FrameError::TooLong(length)),
        }
    }
}
