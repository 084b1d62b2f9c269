//! Arbitrary bytes as a CDI spec.

#![no_main]

#[global_allocator]
static MEMORY: fuzz::Memory = fuzz::memory();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within_bounds(&MEMORY, bytes, fuzz_checks::spec));
