//! NVML's C interface, as safe as a foreign library can be made.
//!
//! Nothing the library answers is believed further than `nvml.h` lets it go:
//! every buffer is larger than what the library is told, every text is looked
//! for its end inside of it, and a success that wrote nothing is a failure.
//! `nvml-wrapper` itself does none of that and has no fabric call, so this is
//! built on its bindings alone.

#![expect(unsafe_code, reason = "a C library is loaded and called")]

mod info;
mod session;

pub(crate) use info::FabricInfo;
pub(crate) use session::{Device, Library, Session};

use crate::nvml::NvmlFailure;

/// Room behind every buffer. A library that writes past the size it was given
/// hits this instead of the stack.
const SPARE: usize = 512;

/// `T`, with room behind it. A pointer to it is one to the value (`repr(C)`),
/// and may be used for all of the room.
#[repr(C)]
struct Roomy<T> {
    value: T,
    spare: [u8; SPARE],
}

// === impl Roomy ===

impl<T> Roomy<T> {
    fn new(value: T) -> Self {
        Self {
            value,
            spare: [0; SPARE],
        }
    }
}

/// The function behind a name, if the library has it.
fn entry<F: Copy, E>(symbol: &Result<F, E>, call: &'static str) -> Result<F, NvmlFailure> {
    symbol
        .as_ref()
        .copied()
        .map_err(|_| NvmlFailure::SymbolMissing { call })
}
