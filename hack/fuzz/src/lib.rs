//! What the targets share: how much memory an input may take.

use std::alloc::System;

/// The allocator of a target.
pub type Memory = cap::Cap<System>;

/// What a parser takes for nothing: tables, buffers, the text of an error.
const BASE: usize = 1 << 20;

/// Bytes in memory for each byte of the input, over all that a check makes of
/// it: some four models of it at once. `[,` is an element of a list, and such
/// a node of a tree is 100 to 200 bytes.
const PER_BYTE: usize = 1000;

/// Without a limit of its own.
pub const fn memory() -> Memory {
    Memory::new(System, usize::MAX)
}

/// Runs `check`, which the process does not survive if it asks for more memory
/// than a multiple of its input.
pub fn within_bounds(memory: &Memory, bytes: &[u8], check: impl FnOnce(&[u8])) {
    let limit = memory.allocated() + BASE + PER_BYTE * bytes.len();
    let limited = memory.set_limit(limit);
    check(bytes);
    let freed = memory.set_limit(usize::MAX);
    assert!(limited.is_ok() && freed.is_ok(), "the limit was not taken");
}
