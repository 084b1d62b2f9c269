//! End-to-end tests of the commands that examine a host as a whole, on root
//! directories that the tests make.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

mod broken;
mod bundle;
mod channel_nodes;
mod channels;
#[path = "../support/cri.rs"]
mod cri;
mod ends;
mod fabric;
mod findings;
mod fixes;
mod gpus;
mod healthy;
mod host;
mod host_imex;
mod hosts;
mod kubelet_root;
mod makers;
mod mounts;
#[path = "../support/output.rs"]
mod output;
mod pairs;
#[path = "../support/prepared.rs"]
mod prepared;
#[path = "../support/prepared_gpus.rs"]
mod prepared_gpus;
mod reports;
mod runtimes;
#[path = "../support/schema.rs"]
mod schema;
mod schemas;
mod specs;
mod two_drivers;
#[path = "../support/unprivileged.rs"]
mod unprivileged;
mod without_kubelet;

use output::{stderr, stdout};
