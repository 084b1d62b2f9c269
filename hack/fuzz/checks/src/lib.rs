//! What must hold for any input. `hack/fuzz` looks for inputs for which it
//! does not; the tests of this crate replay the corpus of those that were
//! interesting, without a fuzzer.

#![forbid(unsafe_code)]

mod checkpoint;

pub use checkpoint::checkpoint;
