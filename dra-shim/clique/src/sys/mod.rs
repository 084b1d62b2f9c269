//! NVML's C interface, as safe as a foreign library can be made.
//!
//! Results are believed only as far as `nvml.h` defines them: every buffer is
//! larger than the size passed to the library, the end of a text is searched
//! only inside its buffer, and a success that wrote nothing is a failure.
//! `nvml-wrapper` does none of that and has no fabric call, so this is built on
//! its bindings alone.

#![expect(unsafe_code, reason = "a C library is loaded and called")]

mod fabric_info;
mod padded;
mod session;
mod symbol;

pub(crate) use fabric_info::FabricInfo;
pub(crate) use session::{Device, Library, Session};
