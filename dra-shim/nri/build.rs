//! Compiles the vendored protocol definition in pure Rust: no `protoc` needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto/api.proto");
    let descriptors = protox::compile(["proto/api.proto"], ["proto"])?;
    // Messages only. Ordered maps: the same answer is the same bytes.
    prost_build::Config::new()
        .btree_map(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
