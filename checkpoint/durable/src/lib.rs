#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! ## How the crate is laid out
//!
//! ```text
//!  caller ──► trait Dir ──┬── OsDir ──► os::backend    system calls on one directory descriptor
//!                         └── SimDir ─► sim::backend   in memory: the cached and the synced content
//!                                 │
//!                                 ▼
//!                    operations.rs: each call as a sequence of backend calls
//! ```
//!
//! Only `operations.rs` knows that a replace is "create a temp file, write, fsync,
//! rename, fsync of the directory". Both directories run it, so a bug that a crash
//! shows in `SimDir` is also in `OsDir`.

mod dir;
mod error;
mod name;
mod operations;
mod os;
#[cfg(feature = "sim")]
pub mod sim;

pub use dir::{Dir, Lock, Version};
pub use dra_common::Class;
pub use error::{Error, Op};
pub use name::is_temp_file;
pub use os::OsDir;
#[cfg(feature = "sim")]
pub use sim::{SimDir, Step};
