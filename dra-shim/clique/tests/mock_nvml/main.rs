//! The real probe and the real watch on a real shared library.
//!
//! What the crate reports for each behaviour of NVML, through dlopen and the C
//! ABI; `reported.md` is all of it in one table.

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
