#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! ## How the crate is laid out
//!
//! ```text
//!  caller ──► trait Dir ──┬── OsDir ──► OsBackend  ── system calls on one directory descriptor
//!                         └── SimDir ──► sim::backend ── memory: what is live, what is durable
//!                                          ▲
//!                  operations.rs: the order of steps, written once for both
//! ```
//!
//! `operations.rs` alone knows that a replace is "temporary, write, fsync, rename,
//! fsync of the directory". Both directories run it, so a crash found in
//! `SimDir` is a crash of the real thing.

mod dir;
mod error;
mod name;
mod operations;
mod os;
#[cfg(feature = "sim")]
pub mod sim;

pub use dir::{Dir, Lock, Version};
pub use error::{Class, Error, Op};
pub use name::is_leftover;
pub use os::OsDir;
#[cfg(feature = "sim")]
pub use sim::{SimDir, Step};
