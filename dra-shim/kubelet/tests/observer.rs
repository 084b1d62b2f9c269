//! The events of an observer: each start has its end, and each error has its code.

use std::time::Duration;

use dra_kubelet::{ClaimError, DesiredPool};
use tokio::sync::watch;

use crate::support::api::ApiServer;
use crate::support::notes::Notes;
use crate::support::proto::health::NodeWatchResourcesRequest;
use crate::support::proto::health::dra_resource_health_client::DraResourceHealthClient;
use crate::support::{
    Claims, DRIVER, Script, devices, notify, prepare_request, soon, start_with, unprepare_request,
    until,
};

const LONG: Duration = Duration::from_secs(45);

#[tokio::test]
async fn a_prepare_is_observed_from_its_call_to_its_answer() {
    let notes = Notes::default();
    let running = start_with(Script::instant(), Claims::allocated(&["a"]), |builder| {
        builder.observer(notes.clone())
    });
    let mut client = running.dra().await;
    client
        .node_prepare_resources(prepare_request(&["a"], LONG))
        .await
        .unwrap();
    assert_eq!(
        notes.taken(),
        [
            "call prepare started",
            "prepare a started",
            "read a: ok",
            "attempt prepare a started",
            "attempt prepare a: ok",
            "prepare a: ok",
            "call prepare ok: Answered { claims: 1, failed: 0 }",
        ]
    );
    client
        .node_unprepare_resources(unprepare_request(&["a"], LONG))
        .await
        .unwrap();
    assert_eq!(
        notes.taken(),
        [
            "call unprepare started",
            "unprepare a started",
            "attempt unprepare a started",
            "attempt unprepare a: ok",
            "unprepare a: ok",
            "call unprepare ok: Answered { claims: 1, failed: 0 }",
        ]
    );
}

#[tokio::test]
async fn every_error_has_its_code() {
    let notes = Notes::default();
    let claims = Claims::allocated(&["panics", "unnamed", "named"]);
    claims.put("replaced", "another-uid", Some(DRIVER));
    claims.put("unallocated", "uid-unallocated", None);
    let driver = Script::preparing(|_, claim| async move {
        match claim.id.name.as_str() {
            "panics" => panic!("on purpose"),
            "named" => Err(ClaimError::permanent("the lamp is broken").with_code("lamp")),
            _ => Err(ClaimError::permanent("why not")),
        }
    });
    let running = start_with(driver, claims, |builder| builder.observer(notes.clone()));
    let names = [
        "panics",
        "unnamed",
        "named",
        "replaced",
        "unallocated",
        "missing",
    ];
    let mut client = running.dra().await;
    client
        .node_prepare_resources(prepare_request(&names, LONG))
        .await
        .unwrap();
    for line in [
        "prepare panics: driver-panicked",
        "prepare unnamed: driver",
        "prepare named: lamp",
        "read replaced: claim-replaced",
        "prepare replaced: claim-replaced",
        "prepare unallocated: claim-not-allocated",
        "prepare missing: claim-not-found",
        "call prepare failed: Answered { claims: 6, failed: 6 }",
    ] {
        assert!(notes.has(line), "{line} is not in {:?}", notes.taken());
    }
}

#[tokio::test]
async fn each_attempt_is_observed_and_a_call_that_is_cut_off_is_cancelled() {
    let notes = Notes::default();
    let seen = notes.clone();
    let driver = Script::preparing(move |_, claim| {
        let again = seen.has("attempt prepare a: not-yet");
        async move {
            if again {
                return Ok(devices(&claim));
            }
            Err(ClaimError::retry("not yet").with_code("not-yet"))
        }
    });
    let running = start_with(driver, Claims::allocated(&["a"]), |builder| {
        builder.observer(notes.clone())
    });
    let mut client = running.dra().await;
    let call = tokio::spawn(async move {
        client
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
    });
    until("the first attempt", || {
        notes.has("attempt prepare a: not-yet")
    })
    .await;
    call.abort();
    until("the work's end", || notes.has("prepare a: ok")).await;
    let cancelled = "call prepare cancelled: Cancelled";
    until("the call's end", || notes.has(cancelled)).await;
}

#[tokio::test]
async fn registration_and_health_streams_are_observed() {
    let notes = Notes::default();
    let running = start_with(Script::instant(), Claims::default(), |builder| {
        builder.observer(notes.clone())
    });
    notify(&running.registration_socket()).await;
    assert!(notes.has("registration Registered"));

    let mut client = DraResourceHealthClient::new(running.service().await);
    let stream = client
        .node_watch_resources(NodeWatchResourcesRequest {})
        .await
        .unwrap();
    assert!(notes.has("health stream true"));
    assert!(!notes.has("health stream false"));
    drop((stream, client));
    soon("the shutdown", running.plugin.shutdown()).await;
    until("the stream's end", || notes.has("health stream false")).await;
}

#[tokio::test]
async fn requests_for_slices_are_observed_with_their_outcome() {
    let notes = Notes::default();
    let server = ApiServer::default();
    let (_devices, desired) = watch::channel(DesiredPool::Devices(Vec::new()));
    let _running = start_with(Script::instant(), Claims::default(), |builder| {
        builder
            .publish(server.client(), desired)
            .observer(notes.clone())
    });
    // The node does not exist yet: the request works, the attempt does not.
    until("the node's look-up", || notes.has("slice get-node: ok")).await;
    assert!(!notes.has("slice create: ok"));
    server.put_node("n1", "node-uid");
    until("the slice", || notes.has("slice create: ok")).await;
}
