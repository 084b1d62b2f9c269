//! Answers that a plugin does not give as it should.

use std::time::{Duration, Instant};

use nri_plugin::Late;
use nri_plugin::testing::{CallError, Options};

use crate::support::{HANG, Node, PANIC, REFUSE, SLOW, mk_container, mk_pod};

#[tokio::test]
async fn a_refusal_arrives_as_the_sentence_that_the_plugin_wrote() {
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
async fn a_panic_is_an_error_of_its_call_and_the_plugin_goes_on() {
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
async fn a_plugin_that_hangs_is_answered_for_in_time_and_stays_registered() {
    let mut node = Node::start(Options::default(), Late::Allow).await;
    let begun = Instant::now();
    let creation = node
        .runtime
        .create_container(&mk_pod("p"), &mk_container(HANG))
        .await;
    assert_eq!(creation.unwrap(), nri_plugin::Creation::default());
    // The fake gives up after two seconds, and would have said so.
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
async fn a_guard_that_hangs_refuses() {
    let node = Node::start(Options::default(), Late::Refuse).await;
    let refused = node
        .runtime
        .create_container(&mk_pod("p"), &mk_container(HANG))
        .await;
    let sentence = "the NRI plugin 07-notes did not decide within 1.8 s";
    assert_eq!(refused.unwrap_err(), CallError::Refused(sentence.into()));
}

#[tokio::test]
async fn a_shutdown_answers_what_is_in_flight() {
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
