//! The program on root file systems of every kind, hostile ones among them. What it mounts, it mounts in namespaces
//! of the tests; without root, those tests pass with a message.
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]

#[path = "../support/container.rs"]
mod container;
mod files;
mod hostile;
mod isolation;
