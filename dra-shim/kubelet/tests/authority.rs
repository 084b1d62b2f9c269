//! The riskiest line of the protocol: kubelet dials the registration socket with
//! its percent-encoded path as `:authority`, which `h2` refuses for most names.

use std::fs;
use std::path::Path;

use dra_kubelet::testing::{Event, Options, Release};

use crate::support::node::{Node, claims};
use crate::support::registrar::register;
use crate::support::{Script, files, soon};

/// With the counter-test: under a name without an `@` the same server resets the
/// stream, so that the registration can fail.
// req: KUBELET-3
#[tokio::test]
async fn kubelets_path_as_authority_is_answered_and_refused_for_a_name_without_an_at_sign() {
    let node = Node::new();
    let _plugin = node.registered(Script::instant(), claims(&["a"])).await;
    let socket = files(&node.kubelet.registry()).remove(0);
    let plain = node.kubelet.registry().join("plain-reg.sock");
    fs::hard_link(&socket, &plain).unwrap();

    let mut words = String::new();
    node.until("the refusal", |events| {
        let refusal = events.iter().find_map(|event| match event {
            Event::RegistrationFailed { socket, reason } if *socket == plain => Some(reason),
            _ => None,
        });
        words = refusal.cloned().unwrap_or_default();
        refusal.is_some()
    })
    .await;
    assert!(
        words.contains("RST_STREAM with error code: PROTOCOL_ERROR"),
        "{words}"
    );
}

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
async fn a_kubelet_that_dials_the_service_by_its_path_too_is_answered() {
    let node = Node::with_options(Options {
        release: Release::V1_35,
        ..Options::default()
    });
    let _plugin = node.registered(Script::instant(), claims(&["a"])).await;
    node.prepares("a").await;
}
