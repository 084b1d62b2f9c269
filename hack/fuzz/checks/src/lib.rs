//! Properties that hold for any input. `hack/fuzz` searches for inputs that violate
//! them; the tests of this crate replay the corpus of interesting inputs without a
//! fuzzer.

#![forbid(unsafe_code)]

mod checkpoint;
mod config;
mod device_list;
mod driver_files;
mod error;
mod ld_cache;
mod spec;

pub use checkpoint::checkpoint;
pub use config::config;
pub use device_list::device_list;
pub use driver_files::driver_files;
pub use ld_cache::ld_cache;
pub use spec::spec;
