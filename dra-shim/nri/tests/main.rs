//! Tests of the public API with a runtime in Rust and one in Go. One program, to link the dependencies only once.
#![cfg(test)]
#![allow(missing_docs, reason = "a test")]

mod support;

mod answers;
mod events;
mod failed_registration;
mod go_runtime;
mod registration;
mod updates;
