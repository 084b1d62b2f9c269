#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! ## How the crate is laid out
//!
//! ```text
//!  caller ──► trait Dir ──┬── OsDir ──► os::backend    system calls on one directory descriptor
//!                         └── SimDir ─► sim::backend   memory: what is cached, what is synced
//!                                 │
//!                                 ▼
//!                    operations.rs: each call as an order of backend calls
//! ```
//!
//! `operations.rs` alone knows that a replace is "create a temp file, write, fsync,
//! rename, fsync of the directory". Both directories run it, so a crash found in
//! `SimDir` is a crash of the real one.

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
