//! A defensive interface to NVML's C library.
//!
//! Results are trusted only as far as `nvml.h` defines them. Every buffer is larger than the
//! size passed to the library. The end of a text is searched only inside its buffer. A success
//! that wrote nothing is a failure. `nvml-wrapper` has none of these checks and no fabric call,
//! so this module uses only its bindings.

#![expect(unsafe_code, reason = "a C library is loaded and called")]

mod event_calls;
mod fabric_info;
mod gpu_calls;
mod mig_calls;
mod padded;
mod session;
mod symbol;
mod text;

pub(crate) use event_calls::WAIT as EVENT_WAIT;
pub use event_calls::{EventSet, GpuEvent};
pub use fabric_info::FabricInfo;
pub use mig_calls::{GpuInstance, GpuInstanceProfile, MigDevice, Placement};
pub(crate) use session::Library;
pub use session::{Device, Session};
