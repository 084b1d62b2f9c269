//! kubelet dials the registration socket with its percent-encoded path as `:authority`, which
//! `h2` rejects for most names.

use std::path::Path;

use dra_kubelet::testing::{Options, Release};

use crate::support::node::{Node, claims};
use crate::support::registrar::register;
use crate::support::{Script, soon};

// req: KUBELET-3
#[tokio::test]
async fn the_authority_on_the_wire_is_the_encoded_path() {
    let node = Node::new();
    let mut heard = register(
        &node,
        "d@reg.sock",
        Path::new("/nowhere"),
        &["v1.DRAPlugin"],
    );
    let both_calls = heard.authorities.wait_for(|heard| heard.len() == 2);
    let authorities = soon("GetInfo and Notify", both_calls)
        .await
        .unwrap()
        .clone();
    let root = node.root().to_str().unwrap().replace('/', "%2F");
    let expected = format!("{root}%2Fplugins_registry%2Fd@reg.sock");
    assert_eq!(authorities, [expected.clone(), expected]);
}

// req: KUBELET-3
#[tokio::test]
async fn a_kubelet_that_also_dials_the_service_by_its_path_is_answered() {
    let node = Node::with_options(Options {
        release: Release::V1_35,
        ..Options::default()
    });
    let _plugin = node.registered(Script::instant(), claims(&["a"])).await;
    node.prepares("a").await;
}
