//! The crate as its users see it, on simulated and real directories.
#![expect(clippy::unwrap_used, reason = "test helpers")]

mod boot;
mod common;
mod crash;
mod damage;
mod format;
mod shared;
mod states;
mod status;
