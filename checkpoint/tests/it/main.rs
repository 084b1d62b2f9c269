//! Tests of the public API, on simulated and real directories.
#![expect(clippy::panic, clippy::unwrap_used, reason = "test helpers")]

mod aborted_file;
mod boot;
mod common;
mod crash;
mod damage;
mod faults;
mod format;
mod group;
mod model;
mod payload;
mod race;
mod script;
mod shared;
mod states;
