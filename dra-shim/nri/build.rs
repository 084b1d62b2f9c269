//! Compiles the vendored protocol definition in pure Rust: no `protoc` needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto/api.proto");
    let descriptors = protox::compile(["proto/api.proto"], ["proto"])?;
    // Messages only. Ordered maps, so that equal answers are equal bytes.
    prost_build::Config::new()
        .btree_map(["."])
        .field_attribute(
            ".nri.pkg.api.v1alpha1.Container.image",
            "#[doc = \"The image of the container. Since NRI 0.12.2 (containerd 2.4); \
             `None` from older runtimes.\"]",
        )
        .compile_fds(descriptors)?;
    Ok(())
}
