//! Arbitrary bytes as `ld.so.cache`.

#![no_main]

#[global_allocator]
static MEMORY: fuzz::Memory = fuzz::memory();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within_bounds(
    &MEMORY,
    bytes,
    fuzz_checks::ld_cache
));
