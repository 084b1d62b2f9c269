//! The commands that look at a host as a whole, on roots that are made here:
//! the real program as a person or a script meets it.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

mod broken;
mod bundle;
mod channel_nodes;
mod ends;
mod fabric;
mod findings;
mod fixes;
mod gc;
mod healthy;
mod host;
mod host_imex;
mod kubelet_root;
mod mounts;
mod runtimes;
#[path = "../support/schema.rs"]
mod schema;
mod schemas;
mod specs;
#[path = "../support/unprivileged.rs"]
mod unprivileged;
mod watch;

use std::process::Output;

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
