//! Compiles the vendored protocol definitions in pure Rust: no `protoc` needed.

use std::error::Error;

const PROTOS: [&str; 4] = [
    "proto/pluginregistration/v1/api.proto",
    "proto/dra/v1/api.proto",
    "proto/dra/v1beta1/api.proto",
    "proto/dra-health/v1alpha1/api.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    // With compile_fds tonic-prost-build does not print these itself.
    println!("cargo:rerun-if-changed=build.rs");
    for proto in PROTOS {
        println!("cargo:rerun-if-changed={proto}");
    }
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    tonic_prost_build::configure()
        // Ordered maps: the same response is the same bytes and the same log line.
        .btree_map(".")
        // The clients are the tests' and bring their own channel.
        .build_transport(false)
        .compile_fds(descriptors)?;
    Ok(())
}
