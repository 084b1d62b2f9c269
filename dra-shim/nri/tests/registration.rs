//! Registration of a plugin, and repeated registration.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nri_plugin::testing::{FakeRuntime, Options, Release};
use nri_plugin::{Events, Late, Service, StartError, State};

use crate::support::{LIMIT, Node, Notes, mk_container, mk_pod, mk_update, wait_state};

// req: NRI-1, NRI-3
#[tokio::test]
async fn a_plugin_is_registered_configured_and_synchronized() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nri.sock");
    let (plugin, mut noted) = Notes::new(Events::CREATE_CONTAINER);
    let service = Service::builder(3, "notes")
        .socket(&socket)
        .start(plugin)
        .unwrap();
    // The runtime starts later than the plugin.
    let waiting = wait_state(&service, |state| {
        matches!(state, State::Connecting(Some(_)))
    })
    .await;
    let State::Connecting(Some(error)) = waiting else {
        panic!("{waiting:?}")
    };
    assert_eq!(error.code(), "connect");
    let options = Options {
        config: "a: b".into(),
        pods: (0..30).map(|n| mk_pod(&n.to_string())).collect(),
        containers: (0..7).map(|n| mk_container(&n.to_string())).collect(),
        objects_per_message: 4,
        ..Default::default()
    };
    let runtime = FakeRuntime::start(&socket, options).unwrap();
    let registered = tokio::time::timeout(LIMIT, runtime.wait_registered())
        .await
        .unwrap();
    assert_eq!(
        (registered.index.as_str(), registered.name.as_str()),
        ("03", "notes")
    );
    assert_eq!(registered.events, Events::CREATE_CONTAINER);
    assert_eq!(registered.updates, [mk_update("synchronized")]);
    assert_eq!(noted.next().await, "configure \"a: b\" unknown: none");
    assert_eq!(noted.next().await, "synchronize 30 pods, 7 containers");
    let State::Registered(runtime) = wait_state(&service, State::is_registered).await else {
        panic!("not registered")
    };
    assert_eq!(
        (runtime.name.as_str(), runtime.version.as_str()),
        ("containerd", "v2.3.0")
    );
    assert_eq!(runtime.nri_version, "v0.12.0");
    assert_eq!(runtime.request_timeout, Duration::from_secs(2));
}

// req: NRI-5
#[tokio::test]
async fn after_a_restart_of_the_runtime_the_plugin_is_registered_within_two_seconds() {
    let mut node = Node::start(Options::default(), Late::Allow).await;
    for away in [0, 300, 3000] {
        node.runtime.stop().await;
        wait_state(&node.service, |state| !state.is_registered()).await;
        // The duration of the runtime's restart, unknown to the plugin.
        tokio::time::sleep(Duration::from_millis(away)).await;
        let back = Instant::now();
        node.runtime.restart().await.unwrap();
        tokio::time::timeout(LIMIT, node.runtime.wait_registered())
            .await
            .unwrap();
        let took = back.elapsed();
        assert!(took < Duration::from_secs(2), "away {away} ms: {took:?}");
        assert!(node.noted.next().await.starts_with("configure"));
        assert!(node.noted.next().await.starts_with("synchronize"));
        node.runtime
            .create_container(&mk_pod("p"), &mk_container("c"))
            .await
            .unwrap();
        assert_eq!(node.noted.next().await, "create_container p/c");
    }
}

#[tokio::test]
async fn a_plugin_that_refuses_its_configuration_is_configured_again_later() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nri.sock");
    let (plugin, mut noted) = Notes::new(Events::ALL);
    *plugin.refusals.lock().unwrap() = 2;
    let runtime = FakeRuntime::start(&socket, Options::default()).unwrap();
    let service = Service::builder(3, "notes")
        .socket(&socket)
        .start(plugin)
        .unwrap();
    let refused = wait_state(&service, |state| {
        matches!(state, State::Connecting(Some(_)))
    })
    .await;
    let State::Connecting(Some(error)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("refused", "the plugin refused: not today")
    );
    tokio::time::timeout(LIMIT, runtime.wait_registered())
        .await
        .unwrap();
    for _ in 0..3 {
        assert!(noted.next().await.starts_with("configure"));
    }
    assert!(noted.next().await.starts_with("synchronize"));
    assert_eq!(runtime.failures().len(), 2);
}

#[tokio::test]
async fn without_a_known_event_there_is_no_subscription_to_all() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nri.sock");
    let options = Options {
        release: Release::Containerd1_7,
        ..Default::default()
    };
    let _runtime = FakeRuntime::start(&socket, options).unwrap();
    let (plugin, _noted) = Notes::new(Events::VALIDATE);
    let service = Service::builder(3, "notes")
        .socket(&socket)
        .start(plugin)
        .unwrap();
    let refused = wait_state(&service, |state| {
        matches!(state, State::Connecting(Some(_)))
    })
    .await;
    let State::Connecting(Some(error)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        error.to_string(),
        "the runtime containerd v1.7.16 knows none of the plugin's events: ValidateContainerAdjustment"
    );
    assert_eq!(error.code(), "no-known-event");
}

#[tokio::test]
async fn a_service_on_a_given_connection_ends_with_it() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (plugin, _noted) = Notes::new(Events::ALL);
    let mut service = Service::builder(3, "notes")
        .connection(ours)
        .start(plugin)
        .unwrap();
    drop(theirs);
    let ended = tokio::time::timeout(LIMIT, service.ended()).await.unwrap();
    assert_eq!(ended.code(), "closed");
    assert!(matches!(&*service.state().borrow(), State::Ended(Some(_))));
    service.shutdown().await;
}

#[tokio::test]
async fn a_service_that_waits_for_a_runtime_shuts_down_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (plugin, noted) = Notes::new(Events::ALL);
    let service = Service::builder(3, "notes").socket(directory.path().join("no.sock"));
    let service = service.start(plugin).unwrap();
    let state = service.state();
    wait_state(&service, |state| {
        matches!(state, State::Connecting(Some(_)))
    })
    .await;
    tokio::time::timeout(LIMIT, service.shutdown())
        .await
        .unwrap();
    assert!(matches!(&*state.borrow(), State::Ended(None)));
    assert!(noted.is_empty());
}

#[tokio::test]
async fn an_invalid_plugin_is_not_started() {
    let start = |index, name: &str, events| {
        Service::builder(index, name)
            .start(Notes::new(events).0)
            .err()
            .unwrap()
    };
    assert!(matches!(
        start(100, "notes", Events::ALL),
        StartError::Index(100)
    ));
    assert!(matches!(start(1, "", Events::ALL), StartError::Name(_)));
    assert!(matches!(start(1, "a b", Events::ALL), StartError::Name(_)));
    assert!(matches!(
        start(1, "notes", Events::NONE),
        StartError::NoEvents
    ));
}
