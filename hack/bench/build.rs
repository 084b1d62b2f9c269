//! Generates kubelet's gRPC service for the floor and the caller: dra-kubelet exports no
//! gRPC types.

use std::error::Error;

const PROTO: &str = "../../dra-shim/kubelet/proto/dra/v1/api.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["../../dra-shim/kubelet/proto"])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(descriptors)?;
    Ok(())
}
