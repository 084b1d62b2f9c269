//! The registry on real directories.
#![cfg(feature = "inject")]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what fails outside a test function fails the test too"
)]

mod directories;
mod explain;
mod files;
mod go;
#[path = "../support/go_tool.rs"]
mod go_tool;
mod host;
mod model;
mod precedence;
