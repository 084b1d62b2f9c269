//! A GPU host in a directory: a driver root with the mock of NVML, `/proc` and `/sys`, from an inventory.
//!
//! For tests. `mock-host INVENTORY DIR` makes one by hand.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test ends where its host cannot be made"
)]

mod host;
mod probe;
mod repeated;

pub use host::{MockHost, built, library};
pub use probe::{generate_gpu_spec, make_probe_image};
pub use repeated::repeated;
