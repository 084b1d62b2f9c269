//! Plans of CDI devices, and what they make of a container's config.
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

mod devices;
mod edits;
mod lossless;
mod many;
mod refusal;
mod shapes;
mod support;
#[cfg(feature = "oci")]
mod typed;
