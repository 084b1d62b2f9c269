//! kubelet's deletions of `ResourceSlices`: those of all drivers of the node at its
//! start, and a driver's own when it has been disconnected for 30 s.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::Resource as _;
use kube::api::{DeleteParams, ListParams};
use kube::core::Request;
use tokio::time::Instant;

use super::event::Event;
use super::options::{BackOff, Times};
use super::session::Session;

/// The API server, and which of its nodes this is.
#[derive(Clone)]
pub(super) struct NodeApi {
    pub(super) client: kube::Client,
    pub(super) node: String,
}

/// Whose slices: `None` for those of all drivers.
type Whose = Option<String>;

#[derive(Debug)]
enum State {
    Connected,
    /// To be deleted then, and the pause if that fails.
    Due(Instant, BackOff),
    Deleted,
}

/// Facts: the timer also begins for a plugin that was registered and never
/// connected, and a connection within the 30 s stops it; a failed deletion is tried
/// again after 1 s, doubled up to 5 min.
pub(super) async fn wipe(session: Arc<Session>, api: NodeApi) {
    let times = &session.world.options.times;
    let mut connections = session.connections.subscribe();
    let mut states = BTreeMap::from([(None, due(Instant::now(), times))]);
    loop {
        connections.borrow_and_update();
        for (driver, connected) in session.drivers() {
            let state = states.entry(Some(driver)).or_insert(State::Connected);
            if connected {
                *state = State::Connected;
            } else if matches!(state, State::Connected) {
                *state = due(Instant::now() + times.wipe, times);
            }
        }
        match next(&mut states) {
            Some((whose, state, at)) => tokio::select! {
                // The sender is in the session.
                _ = connections.changed() => {}
                () = tokio::time::sleep_until(at) => {
                    let deleted = delete(&api, whose.as_deref()).await;
                    let deleted = deleted.inspect_err(|error| {
                        tracing::warn!(%error, "cannot delete the slices yet");
                    });
                    if deleted.is_ok() {
                        let driver = whose.clone();
                        session.world.log.push(Event::SlicesDeleted { driver });
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

fn next(states: &mut BTreeMap<Whose, State>) -> Option<(&Whose, &mut State, Instant)> {
    let due = states.iter_mut().filter_map(|(whose, state)| match *state {
        State::Due(at, _) => Some((whose, state, at)),
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

/// `DeleteCollection` with kubelet's field selectors.
async fn delete(api: &NodeApi, driver: Option<&str>) -> Result<(), kube::Error> {
    let of_driver = driver.map_or_else(String::new, |driver| format!(",spec.driver={driver}"));
    let fields = format!("spec.nodeName={}{of_driver}", api.node);
    let request = Request::new(ResourceSlice::url_path(&(), None))
        .delete_collection(
            &DeleteParams::default(),
            &ListParams::default().fields(&fields),
        )
        .map_err(kube::Error::BuildRequest)?;
    api.client.request_text(request).await.map(drop)
}

impl fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeApi")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
