//! The real probe and the real watch on a real shared library.
//!
//! What the crate says to each state of NVML, through dlopen and the C ABI;
//! `what_it_says.md` is all of it in one table.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy takes for library code"
)]

mod believed;
mod careless;
mod errors;
mod foreign;
mod matrix;
mod reload;
mod script;
mod states;
mod support;
mod watch;
