//! The generated protocol module.
#![allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    unused,
    reason = "generated; which lints fire depends on the generator's version"
)]

tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1");
