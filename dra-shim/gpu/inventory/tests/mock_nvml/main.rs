//! Inventories of many hosts, read through the real loader from the mock of NVML, and from directories in place of
//! `/proc` and `/sys`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test helpers, which clippy takes for library code"
)]

mod events;
mod faults;
mod host;
mod models;
mod random;

/// Not a test: this program, started again by the tests as a process with a session.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    nvml_session::serve_if_started().expect("a test starts it");
}
