//! The crate as its users have it, with a runtime in Rust and one in Go. One program: each of its own would link them
//! again.
#![cfg(test)]
#![allow(missing_docs, reason = "a test")]

mod support;

mod answers;
mod events;
mod failed_registration;
mod go_runtime;
mod registration;
mod updates;
