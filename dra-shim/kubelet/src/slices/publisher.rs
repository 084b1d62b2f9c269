//! The publisher's task: sees, decides through [`super::plan`], and writes.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use futures_util::StreamExt as _;
use k8s_openapi::api::resource::v1::{self, ResourceSlice};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_slices};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::accepted::{Accepted, Dropped};
use super::due::Due;
use super::error::status;
use super::plan::{self, Pool, Stage};
use super::requests::{Done, Requests};
use super::seen::Seen;
use super::turn::Turn;
use super::{Desired, Publication, SliceError};
use crate::observer::Observer;
use crate::registration::Registration;

/// Keeps the API server at what is desired.
pub(crate) struct Publisher {
    driver: String,
    node: String,
    requests: Requests,
    desired: watch::Receiver<Desired>,
    state: watch::Sender<Publication>,
    /// None while a blocking look has it.
    turn: Option<Turn>,
    /// Whether kubelet has registered this instance; that never ends.
    registered: bool,
    seen: Seen,
    accepted: Accepted,
    /// What was last said about dropped fields.
    said: Vec<Dropped>,
    due: Due,
}

impl Publisher {
    /// `data` is the data directory that all instances of the driver on the node share.
    pub(crate) fn new(
        client: kube::Client,
        driver: String,
        node: String,
        data: PathBuf,
        desired: watch::Receiver<Desired>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            requests: Requests::new(client, &driver, &node, observer),
            turn: Some(Turn::new(data, driver.clone())),
            driver,
            node,
            desired,
            state: watch::Sender::new(Publication::Pending),
            registered: false,
            seen: Seen::default(),
            accepted: Accepted::default(),
            said: Vec::new(),
            due: Due::never(),
        }
    }

    pub(crate) fn state(&self) -> watch::Receiver<Publication> {
        self.state.subscribe()
    }

    /// Runs until `stop`. Each `Registered` of `registration` is a Notify: a kubelet that
    /// has just started deletes all slices of its node.
    pub(crate) async fn run(
        mut self,
        mut registration: watch::Receiver<Registration>,
        stop: CancellationToken,
    ) {
        let config = watcher::Config::default().fields(self.requests.selector());
        let events = watch_slices(self.requests.slices(), config);
        let mut events = pin!(events.backoff(watch_backoff()));
        let mut desired = self.desired.clone();
        let mut desired_may_change = true;
        let mut registration_may_change = true;
        self.registered = registration.borrow().is_registered();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => match event {
                    Some(event) => self.see(event).await,
                    None => return,
                },
                changed = desired.changed(), if desired_may_change => {
                    desired_may_change = changed.is_ok();
                    self.due.now();
                }
                changed = registration.changed(), if registration_may_change => {
                    registration_may_change = changed.is_ok();
                    if registration.borrow_and_update().is_registered() {
                        self.registered = true;
                        self.due.list = true;
                        self.due.now();
                    }
                }
                () = self.due.wait() => self.reconcile().await,
            }
        }
    }

    async fn see(&mut self, event: Result<Event<ResourceSlice>, watcher::Error>) {
        let error = match event {
            Ok(event) => {
                if self.seen.take(event) {
                    self.due.soon();
                }
                return;
            }
            Err(error) => error,
        };
        match &error {
            // The watch was too old and begins again by itself: routine.
            watcher::Error::WatchError(status) if status.code == 410 => {}
            watcher::Error::InitialListFailed(refusal) if status(refusal) == Some(404) => {
                let error = self.requests.not_served().await;
                self.report_error(&error);
            }
            // Nothing is to be done, or an attempt has found more than this says: the
            // slices may be right all the same.
            _ if self.is_explained() => {}
            _ => self.report(Publication::Failing {
                code: "watch-slices",
                reason: format!("cannot watch ResourceSlices: {}", watch_reason(&error)),
            }),
        }
    }

    fn is_explained(&self) -> bool {
        let state = self.state.borrow();
        matches!(*state, Publication::Standby | Publication::Failing { .. })
    }

    async fn reconcile(&mut self) {
        match self.attempt().await {
            Ok(state) => {
                self.due.reset();
                match state {
                    Some(Publication::Standby) => self.due.in_turn(),
                    Some(Publication::Published { .. }) => self.say_dropped(),
                    _ => {}
                }
                if let Some(state) = state {
                    self.report(state);
                }
            }
            // In a rolling update, or while slices are being deleted: routine at first.
            Err(error) if error.is_contested() && self.due.contested() => {}
            Err(error) => {
                if !error.is_permanent() {
                    self.due.again();
                }
                self.report_error(&error);
            }
        }
    }

    /// None when nothing can be said yet.
    async fn attempt(&mut self) -> Result<Option<Publication>, SliceError> {
        let desired = self.desired.borrow().clone();
        if desired != Desired::Undecided && !self.has_turn().await {
            return Ok(Some(Publication::Standby));
        }
        if self.due.list {
            self.seen.replace(self.requests.list().await?);
            self.due.list = false;
        }
        if !self.seen.complete {
            return Ok(None);
        }
        match desired {
            Desired::Undecided => Ok(Some(Publication::Pending)),
            Desired::Withdrawn => {
                self.apply(plan::withdraw(&self.seen.slices), &[]).await?;
                Ok(Some(Publication::Withdrawn))
            }
            Desired::Devices(devices) => {
                let pool = self.pool().await?;
                let stages = plan::publish(&pool, &devices, &self.accepted, &self.seen.slices)?;
                for stage in stages {
                    self.apply(stage, &devices).await?;
                }
                Ok(Some(Publication::Published {
                    slices: self.seen.slices.keys().cloned().collect(),
                    dropped: self.accepted.dropped(),
                }))
            }
        }
    }

    /// If that cannot be found out, it publishes: two that want the same agree anyway.
    async fn has_turn(&mut self) -> bool {
        let Some(mut turn) = self.turn.take() else {
            return true;
        };
        let registered = self.registered;
        let look = move || {
            let has_turn = turn.look(registered);
            (turn, has_turn)
        };
        // It fails only if the blocking step panicked or the runtime ends.
        let Ok((turn, has_turn)) = tokio::task::spawn_blocking(look).await else {
            return true;
        };
        self.turn = Some(turn);
        has_turn.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see whether a newer instance publishes");
            true
        })
    }

    /// Asked for each time, and that is rare: a node that was deleted and made
    /// again has another UID, and slices of the old owner are collected.
    async fn pool(&self) -> Result<Pool, SliceError> {
        Ok(Pool {
            driver: self.driver.clone(),
            node: self.node.clone(),
            node_uid: self.requests.node_uid(&self.node).await?,
        })
    }

    /// The first error, once every request has its answer.
    async fn apply(&mut self, stage: Stage, devices: &[v1::Device]) -> Result<(), SliceError> {
        let mut result = Ok(());
        let mut stored = Vec::new();
        for done in self.requests.run(stage).await {
            match done {
                Ok(Done::Stored(slice)) => stored.push(*slice),
                Ok(Done::Deleted(name)) => {
                    self.seen.slices.remove(&name);
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        if !stored.is_empty() {
            self.accepted.learn(devices, &stored);
        }
        for slice in stored {
            self.seen.insert(slice);
        }
        result
    }

    /// Once for each change: a dropped field is not sent again either.
    fn say_dropped(&mut self) {
        let dropped = self.accepted.dropped();
        if dropped == self.said {
            return;
        }
        for field in dropped.iter().filter(|field| !self.said.contains(field)) {
            tracing::warn!(devices = ?field.devices, "{field}");
        }
        self.said = dropped;
    }

    fn report_error(&self, error: &SliceError) {
        self.report(Publication::Failing {
            code: error.code(),
            reason: error.sentence(),
        });
    }

    /// Says each change once.
    fn report(&self, state: Publication) {
        self.state.send_if_modified(|current| {
            if *current == state {
                return false;
            }
            match &state {
                Publication::Failing { code, reason } => {
                    tracing::warn!(code, %reason, "cannot publish devices");
                }
                state => tracing::info!(?state, "publication of devices"),
            }
            *current = state;
            true
        });
    }
}

fn watch_reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => crate::text::reason(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// Between attempts to watch. kube's default waits up to a minute, twice in a row
/// when the server lost its history while it was away; with 8 s and jitter,
/// thousands of nodes ask a server that comes back some hundred times a second.
fn watch_backoff() -> watcher::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(800))
        .with_max_delay(Duration::from_secs(8))
        .with_jitter()
        .without_max_times()
        .into()
}
