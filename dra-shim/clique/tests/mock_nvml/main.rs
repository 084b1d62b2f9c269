//! The real probe and watch, with a real shared library.
//!
//! Checks the crate's reports for each behaviour of NVML, through dlopen and the C ABI.
//! `reported.md` has all reports in one table.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test helpers, which clippy takes for library code"
)]

mod careless;
mod errors;
mod false_success;
mod foreign;
mod matrix;
mod reload;
mod script;
mod states;
mod support;
mod watch;
