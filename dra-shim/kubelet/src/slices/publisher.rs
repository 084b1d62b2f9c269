//! The publisher's task: sees, decides through [`super::plan`], and writes.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use backon::ExponentialBuilder;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_slices};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::due::Due;
use super::plan::{self, Accepted, Pool, Step};
use super::seen::{Seen, name};
use super::{Desired, Publication, SliceError};
use crate::registration::Registration;

/// One request may take this long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps the API server at what is desired.
pub(crate) struct Publisher {
    driver: String,
    node: String,
    slices: Api<ResourceSlice>,
    nodes: Api<Node>,
    desired: watch::Receiver<Desired>,
    state: watch::Sender<Publication>,
    seen: Seen,
    accepted: Option<Accepted>,
    due: Due,
}

impl Publisher {
    pub(crate) fn new(
        client: kube::Client,
        driver: String,
        node: String,
        desired: watch::Receiver<Desired>,
    ) -> Self {
        Self {
            driver,
            node,
            slices: Api::all(client.clone()),
            nodes: Api::all(client),
            desired,
            state: watch::Sender::new(Publication::Pending),
            seen: Seen::default(),
            accepted: None,
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
        let config = watcher::Config::default().fields(&self.selector());
        let mut events = pin!(watch_slices(self.slices.clone(), config).backoff(watch_backoff()));
        let mut desired = self.desired.clone();
        let mut desired_may_change = true;
        let mut registration_may_change = true;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => match event {
                    Some(event) => self.see(event),
                    None => return,
                },
                changed = desired.changed(), if desired_may_change => {
                    desired_may_change = changed.is_ok();
                    self.due.now();
                }
                changed = registration.changed(), if registration_may_change => {
                    registration_may_change = changed.is_ok();
                    if registration.borrow_and_update().is_registered() {
                        self.due.list = true;
                        self.due.now();
                    }
                }
                () = self.due.wait() => self.reconcile().await,
            }
        }
    }

    fn selector(&self) -> String {
        format!("spec.driver={},spec.nodeName={}", self.driver, self.node)
    }

    fn see(&mut self, event: Result<Event<ResourceSlice>, watcher::Error>) {
        match event {
            Ok(event) => {
                if self.seen.take(event) {
                    self.due.soon();
                }
            }
            // The watch was too old and begins again by itself: routine.
            Err(watcher::Error::WatchError(status)) if status.code == 410 => {}
            // The slice may be right all the same, so what an attempt found says more.
            Err(_) if matches!(*self.state.borrow(), Publication::Failing { .. }) => {}
            Err(error) => self.report(Publication::Failing {
                code: "watch-slices",
                reason: format!("cannot watch ResourceSlices: {}", watch_reason(&error)),
            }),
        }
    }

    async fn reconcile(&mut self) {
        match self.attempt().await {
            Ok(state) => {
                self.due.reset();
                if let Some(state) = state {
                    self.report(state);
                }
            }
            Err(error) => {
                if !error.is_permanent() {
                    self.due.again();
                }
                self.report(Publication::Failing {
                    code: error.code(),
                    reason: error.sentence(),
                });
            }
        }
    }

    /// None when nothing can be said yet.
    async fn attempt(&mut self) -> Result<Option<Publication>, SliceError> {
        if self.due.list {
            let params = ListParams::default().fields(&self.selector());
            let list = request("list ResourceSlices", self.slices.list(&params)).await?;
            self.seen.replace(list.items);
            self.due.list = false;
        }
        if !self.seen.complete {
            return Ok(None);
        }
        let desired = self.desired.borrow().clone();
        match desired {
            Desired::Undecided => Ok(Some(Publication::Pending)),
            Desired::Withdrawn => {
                self.apply(plan::withdraw(&self.seen.slices)).await?;
                Ok(Some(Publication::Withdrawn))
            }
            Desired::Devices(devices) => {
                let pool = self.pool().await?;
                let steps =
                    plan::publish(&pool, &devices, self.accepted.as_ref(), &self.seen.slices)?;
                if let Some(stored) = self.apply(steps).await? {
                    self.accepted = Some(Accepted {
                        sent: devices,
                        stored: stored.spec.devices,
                    });
                }
                let slice = self.seen.slices.keys().next().cloned().unwrap_or_default();
                Ok(Some(Publication::Published { slice }))
            }
        }
    }

    /// Asked for each time, and that is rare: a node that was deleted and made
    /// again has another UID, and slices of the old owner are collected.
    async fn pool(&self) -> Result<Pool, SliceError> {
        let node = request("get the Node", self.nodes.get_metadata_opt(&self.node)).await?;
        let uid = node.and_then(|node| node.metadata.uid);
        Ok(Pool {
            driver: self.driver.clone(),
            node: self.node.clone(),
            node_uid: uid.ok_or_else(|| SliceError::NoNode {
                node: self.node.clone(),
            })?,
        })
    }

    /// Returns the slice that was written, as the server stored it.
    async fn apply(&mut self, steps: Vec<Step>) -> Result<Option<ResourceSlice>, SliceError> {
        let mut written = None;
        let params = PostParams::default();
        for step in steps {
            match step {
                Step::Create(slice) => {
                    let create = self.slices.create(&params, &slice);
                    let stored = request("create the ResourceSlice", create).await?;
                    tracing::info!(slice = name(&stored), "created ResourceSlice");
                    self.seen.insert(stored.clone());
                    written = Some(stored);
                }
                Step::Replace(slice) => {
                    let replace = self.slices.replace(name(&slice), &params, &slice);
                    let stored = request("update the ResourceSlice", replace).await?;
                    tracing::info!(slice = name(&stored), "updated ResourceSlice");
                    self.seen.insert(stored.clone());
                    written = Some(stored);
                }
                Step::Delete(slice) => {
                    self.delete(&slice).await?;
                    self.seen.slices.remove(name(&slice));
                }
            }
        }
        Ok(written)
    }

    async fn delete(&self, slice: &ResourceSlice) -> Result<(), SliceError> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: slice.metadata.uid.clone(),
            resource_version: slice.metadata.resource_version.clone(),
        });
        match request(
            "delete a ResourceSlice",
            self.slices.delete(name(slice), &params),
        )
        .await
        {
            Err(SliceError::Api { source, .. }) if is_not_found(&source) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                tracing::info!(slice = name(slice), "deleted ResourceSlice");
                Ok(())
            }
        }
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

async fn request<T>(
    verb: &'static str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, SliceError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(SliceError::Api {
            verb,
            source: Box::new(source),
        }),
        Err(_) => Err(SliceError::TimedOut { verb }),
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
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
