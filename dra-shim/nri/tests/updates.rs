//! Unsolicited updates of a plugin.

use std::time::{Duration, Instant};

use nri_plugin::api::{Container, ContainerEviction, ContainerUpdate, PodSandbox};
use nri_plugin::testing::{FakeRuntime, Options};
use nri_plugin::{
    Changes, Context, Creation, Events, Late, Plugin, Refusal, Service, UpdateError, Updates,
};

use crate::support::{LIMIT, Node, mk_container, mk_pod, mk_update, wait_state};

/// Awaits an update within `create_container`, and spawns one within
/// `post_create_container`.
struct Impatient(Updates);

impl Plugin for Impatient {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER | Events::POST_CREATE_CONTAINER
    }

    async fn create_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        _: &Container,
    ) -> Result<Creation, Refusal> {
        let awaited = self.0.update(vec![mk_update("awaited")].into()).await;
        Err(Refusal::new(format_args!("{awaited:?}")))
    }

    async fn post_create_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        _: &Container,
    ) -> Result<(), Refusal> {
        let updates = self.0.clone();
        tokio::spawn(async move { updates.update(vec![mk_update("spawned")].into()).await });
        Ok(())
    }
}

#[cfg(test)]
async fn mk_runtime(directory: &tempfile::TempDir) -> (FakeRuntime, Service) {
    let socket = directory.path().join("nri.sock");
    let options = Options {
        request_timeout: Duration::from_millis(500),
        ..Default::default()
    };
    let runtime = FakeRuntime::start(&socket, options).unwrap();
    let builder = Service::builder(7, "impatient").socket(&socket);
    let service = builder.start_with(Impatient).unwrap();
    tokio::time::timeout(LIMIT, runtime.wait_registered())
        .await
        .unwrap();
    wait_state(&service, nri_plugin::State::is_registered).await;
    (runtime, service)
}

#[cfg(test)]
async fn wait_updates(runtime: &FakeRuntime, count: usize) -> Vec<Changes> {
    let updates = tokio::time::timeout(LIMIT, runtime.wait_updates(count));
    updates.await.expect("there was no update")
}

#[tokio::test]
async fn an_update_that_a_method_spawns_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let (runtime, _service) = mk_runtime(&directory).await;
    runtime
        .post_create_container(&mk_pod("p"), &mk_container("c"))
        .await
        .unwrap();
    assert_eq!(
        wait_updates(&runtime, 1).await,
        [vec![mk_update("spawned")].into()]
    );
}

#[tokio::test]
async fn an_update_that_a_method_awaits_waits_until_the_methods_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let (runtime, _service) = mk_runtime(&directory).await;
    let begun = Instant::now();
    let created = runtime
        .create_container(&mk_pod("p"), &mk_container("c"))
        .await;
    // The update is applied although its method no longer waits.
    assert_eq!(created.unwrap(), Creation::default());
    assert!(begun.elapsed() >= Duration::from_millis(450));
    assert_eq!(
        wait_updates(&runtime, 1).await,
        [vec![mk_update("awaited")].into()]
    );
}

#[tokio::test]
async fn a_failed_update_is_an_error_unless_ignore_failure_is_set() {
    let options = Options {
        failing_updates: vec!["bad".into()],
        ..Default::default()
    };
    let node = Node::start(options, Late::Allow).await;
    wait_state(&node.service, nri_plugin::State::is_registered).await;
    let updates = node.service.updates();
    let error = updates.update(vec![mk_update("good"), mk_update("bad")].into());
    let error = error.await.unwrap_err();
    assert!(matches!(error, UpdateError::Refused(_)), "{error}");
    assert_eq!(error.code(), "refused");
    assert!(error.hint().contains("ignore_failure"), "{}", error.hint());
    let may_fail = ContainerUpdate {
        ignore_failure: true,
        ..mk_update("bad")
    };
    let failed = updates.update(vec![may_fail].into()).await.unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(wait_updates(&node.runtime, 2).await.len(), 2);
}

#[tokio::test]
async fn an_eviction_goes_to_the_runtime_with_its_reason() {
    let node = Node::start(Options::default(), Late::Allow).await;
    wait_state(&node.service, nri_plugin::State::is_registered).await;
    let changes = Changes {
        updates: Vec::new(),
        evictions: vec![ContainerEviction {
            container_id: "greedy".into(),
            reason: "it has taken too much".into(),
        }],
    };
    let failed = node.service.updates().update(changes.clone()).await;
    assert!(failed.unwrap().is_empty());
    assert_eq!(wait_updates(&node.runtime, 1).await, [changes]);
}

#[tokio::test]
async fn an_update_without_a_registration_is_an_error() {
    let error = Updates::default().update(vec![mk_update("x")].into()).await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), "not-registered");
    assert!(error.hint().contains("state"), "{}", error.hint());
}

#[tokio::test]
async fn a_plain_call_needs_neither_a_service_nor_a_runtime() {
    let plugin = Impatient(Updates::default());
    let context = Context::for_tests(Duration::from_secs(2));
    assert!(context.remaining() > Duration::from_secs(1));
    let refused = plugin
        .create_container(&context, &mk_pod("p"), &mk_container("c"))
        .await;
    assert_eq!(refused.unwrap_err(), Refusal::new("Err(NotRegistered)"));
}
