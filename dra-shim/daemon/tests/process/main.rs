//! Tests of the daemon as a process, with mocks of `nvidia-imex`, `nvidia-imex-ctl` and NVML in a driver root, and an
//! API server in this process.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test ends where its expectation fails"
)]

mod api;
mod built;
mod changes;
mod failures;
mod life;
mod network;
mod node;

use serde_json::{Value, json};

use crate::api::Api;
use crate::built::built;
use crate::network::Network;
use crate::node::Node;

const CLIQUE: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8.1";

/// The options of a driver root with GPUs of [`CLIQUE`] and the mocks.
pub(crate) fn driver() -> Vec<&'static str> {
    let programs = built().programs.to_str().unwrap();
    vec!["--clique", CLIQUE, "--imex-programs", programs]
}

/// A member of the clique.
pub(crate) fn entry(node: &Node, index: usize) -> Value {
    json!({"nodeName": node.name, "ipAddress": node.address, "cliqueID": CLIQUE, "index": index,
        "podUID": node.pod_uid()})
}

/// A node that is a member with index 0, and ready.
pub(crate) fn ready_node() -> (Network, Api, Node) {
    let (network, api) = (Network::new(), Api::start());
    let mut node = Node::new(&network, &api, 1, &driver());
    api.put(CLIQUE, &[entry(&node, 0)]);
    node.start();
    node.until_ready();
    (network, api, node)
}
