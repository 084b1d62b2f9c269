//! Shared code of the targets: the memory limit for an input.

use std::alloc::System;

/// The allocator of a target.
pub type Memory = cap::Cap<System>;

/// A parser's memory independent of the input: tables, buffers, the text of an error.
const BASE: usize = 1 << 20;

/// Bytes in memory for each byte of the input, over everything that a check builds:
/// about four models at once. `[,` is a list element, and such a tree node takes 100
/// to 200 bytes.
const PER_BYTE: usize = 1000;

/// An allocator without limit.
pub const fn memory() -> Memory {
    Memory::new(System, usize::MAX)
}

/// Runs `check`. If it allocates more memory than a multiple of its input, the process
/// aborts.
pub fn within_bounds(memory: &Memory, bytes: &[u8], check: impl FnOnce(&[u8])) {
    let limit = memory.allocated() + BASE + PER_BYTE * bytes.len();
    let limited = memory.set_limit(limit);
    check(bytes);
    let freed = memory.set_limit(usize::MAX);
    assert!(
        limited.is_ok() && freed.is_ok(),
        "the limit could not be set"
    );
}
