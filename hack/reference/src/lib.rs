//! Pages of `docs/reference`, which tests of other crates write from the code and compare with it:
//!
//! ```text
//! clap::Command of a program ─► program_page ─┐
//! schema of a custom resource ► fields_table ─┴► assert_page ─► docs/reference/PAGE.md
//! ```
//!
//! An outdated page fails the test; with `UPDATE_REFERENCE=1` in the environment, the test writes it. For a new
//! program, add a test of three lines to its crate and a row to the table of `docs/reference/README.md`.

#![forbid(unsafe_code)]

mod fields;
mod page;
mod program;

pub use fields::fields_table;
pub use page::{assert_page, cell};
pub use program::program_page;
