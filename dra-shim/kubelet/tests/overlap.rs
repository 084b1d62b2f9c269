//! Overlapping calls for one claim: dropped, repeated, and followed by the other method.

use std::sync::Arc;
use std::time::Duration;

use dra_kubelet::ClaimError;
use tokio::sync::{Semaphore, mpsc};

use crate::support::{Claims, Script, devices, prepare_request, soon, start, unprepare_request};

const LONG: Duration = Duration::from_secs(45);

/// A driver whose Prepare reports its beginning and waits for a signal to continue.
#[cfg(test)]
fn stepwise() -> (
    Script,
    mpsc::UnboundedReceiver<&'static str>,
    Arc<Semaphore>,
) {
    let (log, events) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let driver = Script::preparing(move |_, claim| {
        let (log, open) = (log.clone(), Arc::clone(&open));
        async move {
            log.send("begun").unwrap();
            open.acquire().await.unwrap().forget();
            log.send("ended").unwrap();
            Ok(devices(&claim))
        }
    });
    (driver, events, gate)
}

// req: KUBELET-26
#[tokio::test]
async fn an_attempt_continues_when_its_call_is_dropped() {
    let (driver, mut events, gate) = stepwise();
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let call = tokio::spawn(async move {
        client
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
    });
    assert_eq!(soon("the first step", events.recv()).await, Some("begun"));
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    assert_eq!(
        soon("the end of the step", events.recv()).await,
        Some("ended")
    );
}

// req: KUBELET-26
#[tokio::test]
async fn a_second_call_joins_the_operation_instead_of_beginning_its_own() {
    let (driver, mut events, gate) = stepwise();
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let mut first = client.clone();
    let first = tokio::spawn(async move {
        first
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
    });
    assert_eq!(soon("the first step", events.recv()).await, Some("begun"));

    // The second call joins, and is answered 2 s before its own deadline, which a busy machine may
    // need for the answer ...
    let request = prepare_request(&["a"], Duration::from_secs(8));
    let second = client
        .node_prepare_resources(request)
        .await
        .unwrap()
        .into_inner();
    assert!(
        second.claims["uid-a"].error.contains("the work continues"),
        "{second:?}"
    );
    gate.add_permits(1);
    let first = first.await.unwrap().unwrap().into_inner();
    assert_eq!(first.claims["uid-a"].error, "");
    // ... and has not begun a step.
    assert_eq!(
        soon("the end of the step", events.recv()).await,
        Some("ended")
    );
    assert!(events.try_recv().is_err());
}

// req: KUBELET-27
#[tokio::test]
async fn an_unprepare_cancels_the_prepare_and_waits_for_its_attempt() {
    let (log, mut events) = mpsc::unbounded_channel();
    let unprepare_log = log.clone();
    let mut driver = Script::preparing(move |context, _| {
        let log = log.clone();
        async move {
            log.send("prepare begun").unwrap();
            context.cancellation().cancelled().await;
            // An unprepare that did not wait would run in between.
            tokio::time::sleep(Duration::from_millis(50)).await;
            log.send("prepare ended").unwrap();
            Err(ClaimError::retry("interrupted"))
        }
    });
    driver.unprepare = Box::new(move |_, _| {
        unprepare_log.send("unprepared").unwrap();
        Box::pin(async { Ok(()) })
    });
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let mut preparing = client.clone();
    let preparing = tokio::spawn(async move {
        preparing
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
    });
    assert_eq!(
        soon("the first step", events.recv()).await,
        Some("prepare begun")
    );

    let unprepare = client.node_unprepare_resources(unprepare_request(&["a"], LONG));
    let answer = soon("the unprepare", unprepare).await.unwrap().into_inner();
    assert_eq!(answer.claims["uid-a"].error, "");
    assert_eq!(events.recv().await, Some("prepare ended"));
    assert_eq!(events.recv().await, Some("unprepared"));
    let prepared = soon("the prepare's answer", preparing)
        .await
        .unwrap()
        .unwrap()
        .into_inner();
    assert!(!prepared.claims["uid-a"].error.is_empty());
    // No further attempt of the cancelled Prepare; the driver may be dropped already.
    assert!(events.try_recv().is_err());
}

// req: KUBELET-28
#[tokio::test]
async fn a_prepare_after_an_unprepare_is_a_new_one() {
    let running = start(Script::instant(), Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    for _ in 0..2 {
        let answer = client
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
            .unwrap();
        assert_eq!(answer.into_inner().claims["uid-a"].error, "");
        let answer = client
            .node_unprepare_resources(unprepare_request(&["a"], LONG))
            .await;
        assert_eq!(answer.unwrap().into_inner().claims["uid-a"].error, "");
    }
}
