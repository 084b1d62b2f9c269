//! Buffers for a library that may write past their end.

/// Number of bytes behind every buffer. A library that writes past the given size overwrites
/// these instead of the stack.
const PADDING: usize = 512;

/// A `T` followed by padding. A pointer to it is also a pointer to the value (`repr(C)`), and
/// is valid for writes to both.
#[repr(C)]
pub(super) struct Padded<T> {
    pub(super) value: T,
    padding: [u8; PADDING],
}

// === impl Padded ===

impl<T> Padded<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            value,
            padding: [0; PADDING],
        }
    }
}
