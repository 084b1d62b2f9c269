//! Refusals, panics, late answers, and answers during a shutdown.

use std::time::{Duration, Instant};

use nri_plugin::Late;
use nri_plugin::testing::{CallError, Options};

use crate::support::{HANG, Node, PANIC, REFUSE, SLOW, mk_container, mk_pod};

#[tokio::test]
async fn a_refusal_arrives_with_the_plugins_sentence() {
    let node = Node::start(Options::default(), Late::Allow).await;
    let refused = node
        .runtime
        .create_container(&mk_pod("p"), &mk_container(REFUSE))
        .await;
    assert_eq!(
        refused.unwrap_err(),
        CallError::Refused("the container wants the moon".into())
    );
}

// req: NRI-7
#[tokio::test]
async fn a_panic_fails_its_call_and_the_plugin_continues() {
    let node = Node::start(Options::default(), Late::Allow).await;
    let refused = node
        .runtime
        .create_container(&mk_pod("p"), &mk_container(PANIC))
        .await;
    let expected = "the plugin panicked in CreateContainer";
    assert_eq!(refused.unwrap_err(), CallError::Refused(expected.into()));
    node.runtime
        .create_container(&mk_pod("p"), &mk_container("next"))
        .await
        .unwrap();
}

// req: NRI-4, NRI-7
#[tokio::test]
async fn the_library_answers_for_a_plugin_that_hangs_and_keeps_it_registered() {
    let mut node = Node::start(Options::default(), Late::Allow).await;
    let begun = Instant::now();
    let creation = node
        .runtime
        .create_container(&mk_pod("p"), &mk_container(HANG))
        .await;
    assert_eq!(creation.unwrap(), nri_plugin::Creation::default());
    // The fake would have timed out after two seconds.
    assert!(begun.elapsed() >= Duration::from_millis(1800));
    assert_eq!(node.noted.next().await, "create_container p/hang");
    assert_eq!(node.noted.next().await, "cancelled hang");
    node.runtime
        .create_container(&mk_pod("p"), &mk_container("next"))
        .await
        .unwrap();
}

// req: NRI-7
#[tokio::test]
async fn with_late_refuse_a_plugin_that_hangs_refuses() {
    let node = Node::start(Options::default(), Late::Refuse).await;
    let refused = node
        .runtime
        .create_container(&mk_pod("p"), &mk_container(HANG))
        .await;
    let sentence = "the NRI plugin 07-notes did not respond within 1.8 s";
    assert_eq!(refused.unwrap_err(), CallError::Refused(sentence.into()));
}

#[tokio::test]
async fn a_shutdown_answers_calls_in_progress() {
    let Node {
        runtime,
        service,
        mut noted,
        ..
    } = Node::start(Options::default(), Late::Refuse).await;
    let call = tokio::spawn(async move {
        let created = runtime
            .create_container(&mk_pod("p"), &mk_container(SLOW))
            .await;
        (runtime, created)
    });
    assert_eq!(noted.next().await, "create_container p/slow");
    service.shutdown().await;
    let (runtime, created) = call.await.unwrap();
    created.unwrap();
    tokio::time::timeout(crate::support::LIMIT, runtime.wait_gone())
        .await
        .unwrap();
}
