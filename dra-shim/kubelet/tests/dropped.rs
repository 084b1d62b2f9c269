//! Dropped plugins: all their work ends.

use std::time::Duration;

use dra_kubelet::ClaimError;
use tokio::sync::mpsc;

use crate::support::{Claims, Script, prepare_request, soon, start_with, until};

const LONG: Duration = Duration::from_secs(45);

/// A driver: the claim `waits` waits until it is cancelled; other claims fail and are retried.
#[cfg(test)]
fn endless() -> (Script, mpsc::UnboundedReceiver<String>) {
    let (log, events) = mpsc::unbounded_channel();
    let driver = Script::preparing(move |context, claim| {
        let log = log.clone();
        async move {
            log.send(claim.id.name.clone()).unwrap();
            if claim.id.name == "waits" {
                context.cancellation().cancelled().await;
                log.send("cancelled".to_owned()).unwrap();
            }
            Err(ClaimError::retry("not yet"))
        }
    });
    (driver, events)
}

/// Ends the plugin with `end` while both claims are in progress. The step must be cancelled, and
/// the driver must be dropped before the 43 s of its call are over.
#[cfg(test)]
async fn ends_all_work<F: Future<Output = ()>>(end: impl FnOnce(dra_kubelet::Plugin) -> F) {
    let (driver, mut events) = endless();
    let running = start_with(
        driver,
        Claims::allocated(&["waits", "retries"]),
        |builder| builder.shutdown_grace(LONG),
    );
    let mut client = running.dra().await;
    let call = tokio::spawn(async move {
        client
            .node_prepare_resources(prepare_request(&["waits", "retries"], LONG))
            .await
    });
    let mut begun = vec![];
    while begun.len() < 2 {
        begun.extend(soon("the steps", events.recv()).await);
    }
    end(running.plugin).await;
    let mut rest = vec![];
    while let Some(event) = soon("the driver's end", events.recv()).await {
        rest.push(event);
    }
    assert!(rest.contains(&"cancelled".to_owned()), "{begun:?} {rest:?}");
    call.abort();
}

#[tokio::test]
async fn a_dropped_plugin_cancels_its_attempts_and_ends_its_retries() {
    ends_all_work(|plugin| async { drop(plugin) }).await;
}

#[tokio::test]
async fn dropping_the_shutdown_future_drops_the_plugin() {
    ends_all_work(|plugin| async {
        let shutdown = plugin.shutdown();
        let given_up = tokio::time::timeout(Duration::from_millis(50), shutdown).await;
        assert!(given_up.is_err(), "it waits for the work");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_plugin_leaves_no_socket() {
    let (driver, _events) = endless();
    let running = start_with(driver, Claims::default(), |builder| builder);
    let (registry, data) = (running.registry(), running.data());
    drop(running.plugin);
    until("the sockets are removed", || {
        crate::support::files(&registry).is_empty() && crate::support::files(&data).is_empty()
    })
    .await;
}
