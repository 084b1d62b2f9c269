//! Registration, health, lost sockets and shutdown.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use dra_kubelet::{DeviceHealth, Health, Plugin, Registration, StartError};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};

use crate::support::node::Node;
use crate::support::proto::health::NodeWatchResourcesRequest;
use crate::support::proto::health::dra_resource_health_client::DraResourceHealthClient;
use crate::support::proto::registration::RegistrationStatus;
use crate::support::{
    Claims, DRIVER, GIVE_UP, Script, devices, files, prepare_request, registered, soon, start,
    start_with, until,
};

// req: KUBELET-5
#[tokio::test]
async fn the_plugin_advertises_the_newest_version_first() {
    let running = start(Script::instant(), Claims::default());
    let info = running.info().await;
    assert_eq!(
        (info.r#type.as_str(), info.name.as_str()),
        ("DRAPlugin", DRIVER)
    );
    let versions = [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1alpha1.DRAResourceHealth",
    ];
    assert_eq!(info.supported_versions, versions);
    assert_eq!(
        files(&running.data()),
        [std::path::PathBuf::from(info.endpoint)]
    );
}

// req: KUBELET-7
#[tokio::test]
async fn each_registration_and_refusal_is_reported() {
    let running = start(Script::instant(), Claims::default());
    let mut state = running.plugin.registration();
    assert_eq!(*state.borrow_and_update(), Registration::Pending);
    let mut client = running.registration().await;

    client
        .notify_registration_status(registered())
        .await
        .unwrap();
    assert!(state.borrow_and_update().is_registered());
    client
        .notify_registration_status(registered())
        .await
        .unwrap();
    assert!(state.has_changed().unwrap());

    let refused = RegistrationStatus {
        plugin_registered: false,
        error: "no version".into(),
    };
    client.notify_registration_status(refused).await.unwrap();
    assert_eq!(
        *state.borrow(),
        Registration::Refused {
            reason: "no version".into()
        }
    );
}

// req: KUBELET-11
#[tokio::test]
async fn sockets_of_a_dead_instance_are_removed_after_the_registration() {
    let node = Node::new();
    let at = |suffix| {
        let name = format!("{DRIVER}-{suffix}@reg.sock");
        node.kubelet.registry().join(name)
    };
    let (dead, living) = (at("00c0ffee"), at("0badcafe"));
    drop(UnixListener::bind(&dead).unwrap());
    let _living = UnixListener::bind(&living).unwrap();
    let _plugin = node.registered(Script::instant(), Claims::default()).await;
    until("the dead socket is removed", || !dead.exists()).await;
    assert!(living.exists());
    assert_eq!(files(&node.kubelet.registry()).len(), 2);
}

// req: KUBELET-11
#[tokio::test]
async fn sockets_of_an_instance_that_dies_after_the_registration_are_removed_too() {
    let node = Node::new();
    let name = format!("{DRIVER}-00c0ffee@reg.sock");
    let dying = node.kubelet.registry().join(name);
    // A killed process keeps its listener until its last thread ends.
    let listener = UnixListener::bind(&dying).unwrap();
    let _plugin = node.registered(Script::instant(), Claims::default()).await;
    tokio::time::pause();
    // Virtual time: the clean-up after the registration is over, and the next one is 20 s away.
    tokio::time::sleep(Duration::from_secs(10)).await;
    drop(listener);
    assert!(dying.exists());
    until("the dead socket is removed", || !dying.exists()).await;
}

// req: KUBELET-50, KUBELET-52
#[tokio::test]
async fn health_is_sent_at_once_and_at_every_change_until_the_plugin_ends() {
    let device = |health| DeviceHealth {
        pool: "n1".into(),
        device: "d0".into(),
        health,
        message: "x".repeat(2000),
    };
    let (sender, receiver) = watch::channel(vec![device(Health::Healthy)]);
    let running = start_with(Script::instant(), Claims::default(), |builder| {
        builder.health(receiver)
    });
    let mut client = DraResourceHealthClient::new(running.service().await);
    let stream = client
        .node_watch_resources(NodeWatchResourcesRequest {})
        .await
        .unwrap();
    let mut stream = stream.into_inner();

    let first = soon("the first report", stream.message())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (first.devices[0].health, first.devices[0].message.len()),
        (1, 1024)
    );
    sender.send_replace(vec![device(Health::Unhealthy)]);
    let second = soon("the change", stream.message()).await.unwrap().unwrap();
    assert_eq!(second.devices[0].health, 2);

    soon("the shutdown", running.plugin.shutdown()).await;
    assert!(
        soon("the end of the stream", stream.message())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn an_emptied_registry_directory_leads_to_a_registration_under_a_new_name() {
    let node = Node::new();
    let plugin = node
        .registered(Script::instant(), Claims::allocated(&["a"]))
        .await;
    let mut state = plugin.registration();
    let registered = |state: &Registration| state.is_registered();
    soon("Notify", state.wait_for(registered)).await.unwrap();
    let endpoints = node.kubelet.endpoints(DRIVER);
    for file in files(&node.kubelet.registry()) {
        std::fs::remove_file(file).unwrap();
    }
    node.until("the end of the first", |_| {
        node.kubelet.endpoints(DRIVER) != endpoints
    })
    .await;
    soon("the second", node.kubelet.wait_registered(DRIVER)).await;
    assert_ne!(node.kubelet.endpoints(DRIVER), endpoints);
    node.prepares("a").await;
}

/// In paused time, because opening is retried for 30 s.
// req: KUBELET-9
#[tokio::test(start_paused = true)]
async fn sockets_that_cannot_be_reopened_are_a_fatal_error() {
    let mut running = start(Script::instant(), Claims::default());
    let root = running.root.path().to_owned();
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::write(&root, "not a directory").unwrap();
    let give_up = Duration::from_secs(120);
    let failed = tokio::time::timeout(give_up, running.plugin.failed()).await;
    std::fs::remove_file(&root).unwrap();
    assert_eq!(failed.unwrap().code(), "socket-directory");
}

// req: KUBELET-10
#[tokio::test]
async fn a_shutdown_waits_for_work_in_flight_and_removes_the_sockets() {
    let (begun, has_begun) = oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    let driver = Script::preparing(move |_, claim| {
        let begun = begun.lock().unwrap().take();
        async move {
            begun.unwrap().send(()).unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok(devices(&claim))
        }
    });
    let running = start(driver, Claims::allocated(&["a"]));
    let (registry, data) = (running.registry(), running.data());
    let mut client = running.dra().await;
    let call = tokio::spawn(async move {
        client
            .node_prepare_resources(prepare_request(&["a"], GIVE_UP))
            .await
    });
    soon("the step", has_begun).await.unwrap();
    soon("the shutdown", running.plugin.shutdown()).await;
    assert_eq!(
        call.await.unwrap().unwrap().into_inner().claims["uid-a"].error,
        ""
    );
    assert!(files(&registry).is_empty() && files(&data).is_empty());
}

#[tokio::test]
async fn a_shutdown_is_bounded_despite_hanging_work() {
    let driver = Script::preparing(|_, _| std::future::pending());
    let running = start_with(driver, Claims::allocated(&["a"]), |builder| {
        builder.shutdown_grace(Duration::from_millis(100))
    });
    // A connection that never sends data blocks hyper's graceful shutdown forever.
    let _silent = UnixStream::connect(running.registration_socket())
        .await
        .unwrap();
    let mut client = running.dra().await;
    let call = tokio::spawn(async move {
        client
            .node_prepare_resources(prepare_request(&["a"], GIVE_UP))
            .await
    });
    let began = Instant::now();
    soon("the shutdown", running.plugin.shutdown()).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    call.abort();
}

#[tokio::test]
async fn a_shutdown_answers_claims_that_are_being_retried() {
    let (attempts, mut attempted) = mpsc::unbounded_channel();
    let driver = Script::preparing(move |_, _| {
        attempts.send(()).unwrap();
        async { Err(dra_kubelet::ClaimError::retry("not yet")) }
    });
    let running = start_with(driver, Claims::allocated(&["a"]), |builder| {
        builder.shutdown_grace(Duration::from_millis(100))
    });
    let mut client = running.dra().await;
    let call = tokio::spawn(async move {
        client
            .node_prepare_resources(prepare_request(&["a"], Duration::from_secs(45)))
            .await
    });
    soon("the first attempt", attempted.recv()).await;
    soon("the shutdown", running.plugin.shutdown()).await;
    let answer = soon("the answer", call)
        .await
        .unwrap()
        .unwrap()
        .into_inner();
    assert!(
        answer.claims["uid-a"].error.contains("shutting down"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn invalid_settings_are_refused_with_their_name() {
    let start = |driver: &str, node: &str, root: &str| {
        let builder = Plugin::builder(driver, node).kubelet_root(root);
        builder
            .start(Script::instant(), Claims::default())
            .err()
            .expect("refused")
    };
    assert!(matches!(
        start("Upper.example.com", "n", "/tmp"),
        StartError::DriverName(_)
    ));
    for node in [
        "",
        "N1",
        "n1/..",
        "n1/../../x?y",
        "a%2fb",
        "n_1",
        &"n".repeat(254),
    ] {
        let error = start(DRIVER, node, "/tmp");
        assert!(
            matches!(&error, StartError::NodeName(name) if name == node),
            "{error}"
        );
        assert!(error.hint().contains("spec.nodeName"));
    }
    let long = format!("/tmp/{}", "x".repeat(100));
    assert_eq!(start(DRIVER, "n", &long).code(), "socket-path-too-long");
    assert_eq!(
        start(DRIVER, "n", "relative").code(),
        "socket-directory-not-absolute"
    );
}
