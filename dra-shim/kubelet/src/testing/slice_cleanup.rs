//! kubelet's deletions of `ResourceSlice`s: those of all drivers of the node when it
//! starts, and those of a driver that has been disconnected for 30 s.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::Resource as _;
use kube::api::{DeleteParams, ListParams};
use kube::core::Request;
use tokio::time::Instant;

use super::event::Event;
use super::node::NodeApi;
use super::options::{BackOff, Times};
use super::process::Process;

/// The driver whose slices are deleted; `None` for all drivers.
type Owner = Option<String>;

#[derive(Debug)]
enum State {
    Connected,
    /// Deleted at this time, with the back-off for failures.
    Due(Instant, BackOff),
    Deleted,
}

/// Deletes slices as kubelet does. Facts: the timer also starts for a plugin that was
/// registered but never connected. A connection within the 30 s stops the timer. A failed
/// deletion is retried after 1 s, doubled up to 5 min.
pub(super) async fn run(process: Arc<Process>, api: NodeApi) {
    let times = &process.node.options.times;
    let mut connections = process.connections.subscribe();
    let mut states = BTreeMap::from([(None, due(Instant::now(), times))]);
    loop {
        connections.borrow_and_update();
        for (driver, connected) in process.drivers() {
            let state = states.entry(Some(driver)).or_insert(State::Connected);
            if connected {
                *state = State::Connected;
            } else if matches!(state, State::Connected) {
                *state = due(Instant::now() + times.wipe, times);
            }
        }
        match next(&mut states) {
            Some((owner, state, at)) => tokio::select! {
                // The sender is in the process.
                _ = connections.changed() => {}
                () = tokio::time::sleep_until(at) => {
                    let deleted = delete(&api, owner.as_deref()).await;
                    let deleted = deleted.inspect_err(|error| {
                        tracing::warn!(%error, "cannot delete the slices; retrying");
                    });
                    if deleted.is_ok() {
                        let driver = owner.clone();
                        process.node.log.push(Event::SlicesDeleted { driver });
                    }
                    settle(state, deleted.is_ok());
                }
            },
            None => _ = connections.changed().await,
        }
    }
}

const fn due(at: Instant, times: &Times) -> State {
    State::Due(
        at,
        BackOff::doubling(times.wipe_retry, times.max_wipe_retry),
    )
}

fn next(states: &mut BTreeMap<Owner, State>) -> Option<(&Owner, &mut State, Instant)> {
    let due = states.iter_mut().filter_map(|(owner, state)| match *state {
        State::Due(at, _) => Some((owner, state, at)),
        _ => None,
    });
    due.min_by_key(|(_, _, at)| *at)
}

fn settle(state: &mut State, deleted: bool) {
    match state {
        State::Due(at, back_off) if !deleted => *at = Instant::now() + back_off.next(),
        _ => *state = State::Deleted,
    }
}

/// Sends a `DeleteCollection` with kubelet's field selectors.
async fn delete(api: &NodeApi, driver: Option<&str>) -> Result<(), kube::Error> {
    let of_driver = driver.map_or_else(String::new, |driver| format!(",spec.driver={driver}"));
    let fields = format!("spec.nodeName={}{of_driver}", api.name);
    let request = Request::new(ResourceSlice::url_path(&(), None))
        .delete_collection(
            &DeleteParams::default(),
            &ListParams::default().fields(&fields),
        )
        .map_err(kube::Error::BuildRequest)?;
    api.client.request_text(request).await.map(drop)
}
