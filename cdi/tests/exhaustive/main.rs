//! Proofs by exhaustion: each test tries every input of a scope, which its comment
//! states, against a model that is simpler than the code.
//!
//! Numbers are tried completely where there are few enough (channels, majors), else on
//! both sides of every place where an encoding of 32 bits could break
//! ([`scope::edges`], [`scope::boundaries`]). Strings are tried completely up to a
//! length, over an alphabet with at least one character of each class that the code
//! distinguishes.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "what fails outside a test function fails the test too"
)]

mod channels;
mod device_list;
mod driver_files;
#[cfg(feature = "inject")]
mod escapes;
mod letters;
mod names;
mod scope;
