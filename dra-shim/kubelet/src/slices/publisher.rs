//! The publisher's task: watches the slices, decides through [`super::plan`], and writes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::resource::v1;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cache::SliceCache;
use super::election::Election;
use super::error::{SliceError, status};
use super::newer_effects;
use super::plan::{self, Pool, Stage};
use super::requests::{Applied, Requests};
use super::schedule::Schedule;
use super::slice_watch::{SliceWatch, SliceWatchEvent};
use super::state::{DesiredPool, DroppedField, Publication};
use super::stored_form::StoredForms;
use crate::observer::Observer;
use crate::registration::Registration;
use crate::text::root_cause;

/// Keeps the slices on the API server as the driver wants them.
pub(crate) struct Publisher {
    driver: String,
    node: String,
    requests: Requests,
    desired: watch::Receiver<DesiredPool>,
    state: watch::Sender<Publication>,
    /// `None` while a blocking thread checks it.
    election: Option<Election>,
    /// Whether kubelet has ever registered this instance.
    registered: bool,
    cache: SliceCache,
    stored_forms: StoredForms,
    /// Names of slices of other drivers or nodes, found by failed creations.
    taken: BTreeSet<String>,
    /// Whether the API server has refused taints with effects that it does not know.
    refuses_effects: bool,
    /// The last logged dropped fields.
    logged_drops: Vec<DroppedField>,
    schedule: Schedule,
    /// The state before the watch failed to restart.
    before_failed_watch: Option<Publication>,
    is_watching: bool,
}

/// The code of [`Publication::Failing`] for the watch.
const WATCH_FAILS: &str = "watch-slices";

// === impl Publisher ===

impl Publisher {
    /// `data` is the data directory that all instances of the driver on the node share.
    pub(crate) fn new(
        client: kube::Client,
        driver: String,
        node: String,
        data: PathBuf,
        desired: watch::Receiver<DesiredPool>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            requests: Requests::new(client, &driver, &node, observer),
            election: Some(Election::new(data, driver.clone())),
            driver,
            node,
            desired,
            state: watch::Sender::new(Publication::Pending),
            registered: false,
            cache: SliceCache::default(),
            stored_forms: StoredForms::default(),
            taken: BTreeSet::new(),
            refuses_effects: false,
            logged_drops: Vec::new(),
            schedule: Schedule::never(),
            before_failed_watch: None,
            is_watching: false,
        }
    }

    pub(crate) fn state(&self) -> watch::Receiver<Publication> {
        self.state.subscribe()
    }

    /// Runs until `stop`. Lists the slices after each `Registered`, because kubelet deletes all
    /// slices of its node when it starts.
    pub(crate) async fn run(
        mut self,
        mut registration: watch::Receiver<Registration>,
        stop: CancellationToken,
    ) {
        let mut watch = SliceWatch::new(self.requests.client(), self.requests.selector());
        let mut desired = self.desired.clone();
        let mut desired_may_change = true;
        let mut registration_may_change = true;
        self.registered = registration.borrow().is_registered();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                watched = watch.next() => match watched {
                    Some(watched) => self.handle_watch(watched).await,
                    None => return,
                },
                changed = desired.changed(), if desired_may_change => {
                    desired_may_change = changed.is_ok();
                    self.schedule.now();
                }
                changed = registration.changed(), if registration_may_change => {
                    registration_may_change = changed.is_ok();
                    if registration.borrow_and_update().is_registered() {
                        self.registered = true;
                        self.schedule.list = true;
                        self.schedule.now();
                    }
                }
                () = self.schedule.wait() => self.reconcile().await,
            }
        }
    }

    // req: KUBELET-37, KUBELET-38
    async fn handle_watch(&mut self, watched: SliceWatchEvent) {
        if matches!(watched, SliceWatchEvent::Failed(_)) {
            // The API server may be replaced by a newer one.
            self.refuses_effects = false;
        }
        match watched {
            SliceWatchEvent::Slice(event) => {
                if self.cache.apply(*event) {
                    self.schedule.soon();
                }
            }
            SliceWatchEvent::Begun => {
                self.is_watching = true;
                let is_failing = matches!(
                    *self.state.borrow(),
                    Publication::Failing {
                        code: WATCH_FAILS,
                        ..
                    }
                );
                let before = self.before_failed_watch.take();
                if let Some(before) = before.filter(|_| is_failing) {
                    self.report(before);
                }
            }
            // A watch that ends restarts within a minute; only a failed restart is reported.
            SliceWatchEvent::Failed(_) if std::mem::take(&mut self.is_watching) => {}
            SliceWatchEvent::Failed(error) => self.handle_failed_watch(&error).await,
        }
    }

    // req: KUBELET-48
    async fn handle_failed_watch(&mut self, error: &watcher::Error) {
        match error {
            watcher::Error::InitialListFailed(source) if status(source) == Some(404) => {
                let error = self.requests.not_served().await;
                self.report_error(&error);
            }
            // On standby the watch does not matter. If publishing fails already, the error of
            // the request is more useful than this one.
            _ if self.is_standby_or_failing() => {}
            _ => {
                self.before_failed_watch = Some(self.state.borrow().clone());
                self.report(Publication::Failing {
                    code: WATCH_FAILS,
                    reason: format!("cannot watch ResourceSlices: {}", watch_reason(error)),
                });
            }
        }
    }

    fn is_standby_or_failing(&self) -> bool {
        let state = self.state.borrow();
        matches!(*state, Publication::Standby | Publication::Failing { .. })
    }

    async fn reconcile(&mut self) {
        match self.publish().await {
            Ok(state) => {
                self.schedule.reset();
                match &state {
                    Some(Publication::Standby) => self.schedule.standby(),
                    Some(Publication::Published { dropped, .. }) => {
                        self.log_dropped_fields(dropped.clone());
                    }
                    _ => {}
                }
                if let Some(state) = state {
                    self.report(state);
                }
            }
            // Normal in a rolling update and while slices are being deleted.
            Err(error) if error.is_conflict() && self.schedule.conflict() => {}
            Err(error) => {
                if !error.is_permanent() {
                    self.schedule.retry();
                }
                self.report_error(&error);
            }
        }
    }

    /// Compares and writes once. Returns `None` if the slices are not listed yet.
    async fn publish(&mut self) -> Result<Option<Publication>, SliceError> {
        let desired = self.desired.borrow().clone();
        if desired != DesiredPool::Undecided && !self.is_elected().await {
            return Ok(Some(Publication::Standby));
        }
        let listed = self.schedule.list;
        if listed {
            self.cache.replace(self.requests.list().await?);
            self.schedule.list = false;
        }
        if !self.cache.synced {
            return Ok(None);
        }
        match desired {
            DesiredPool::Undecided => Ok(Some(Publication::Pending)),
            DesiredPool::Withdrawn => {
                self.apply(plan::withdraw(&self.cache.slices), &[]).await?;
                Ok(Some(Publication::Withdrawn))
            }
            DesiredPool::Devices(devices) => {
                let pool = self.pool().await?;
                let refused = self.write_without_refused(&pool, &devices, listed).await?;
                let mut dropped = self.stored_forms.dropped_fields();
                dropped.extend(refused);
                Ok(Some(Publication::Published {
                    slices: self.cache.slices.keys().cloned().collect(),
                    generation: self.cache.generation(),
                    dropped,
                }))
            }
        }
    }

    /// Writes the devices. If the API server refuses them with effects of taints that it may not know, writes them
    /// without these taints, and returns what is missing.
    // req: KUBELET-55
    async fn write_without_refused(
        &mut self,
        pool: &Pool,
        devices: &[v1::Device],
        listed: bool,
    ) -> Result<Option<DroppedField>, SliceError> {
        let Some((rest, dropped)) = newer_effects::remove(devices) else {
            self.refuses_effects = false;
            return self.write(pool, devices, listed).await.map(|()| None);
        };
        if !self.refuses_effects {
            match self.write(pool, devices, listed).await {
                Err(error) if error.is_invalid() => {}
                written => return written.map(|()| None),
            }
        }
        self.write(pool, &rest, listed).await?;
        self.refuses_effects = true;
        Ok(Some(dropped))
    }

    /// Compares the devices with the slices, and writes the difference.
    async fn write(
        &mut self,
        pool: &Pool,
        devices: &[v1::Device],
        listed: bool,
    ) -> Result<(), SliceError> {
        let stages = plan::publish(pool, devices, &self.stored_forms, &self.cache.slices)?;
        for stage in stages {
            let applied = self.apply(stage, devices).await;
            if let Err(SliceError::NameTaken { name }) = &applied
                && listed
            {
                self.take_name(name);
            }
            applied?;
        }
        Ok(())
    }

    /// Records a taken name: the list did not contain the slice, but its creation failed
    /// because the name exists.
    fn take_name(&mut self, name: &str) {
        let message = "cannot create the ResourceSlice: another driver, another node or a slice that is being deleted uses this name; retrying with another name";
        tracing::warn!(slice = name, "{message}");
        self.taken.insert(name.to_owned());
    }

    /// Whether this instance publishes. True if the election fails: two instances with the same
    /// devices write the same slices.
    async fn is_elected(&mut self) -> bool {
        let Some(mut election) = self.election.take() else {
            return true;
        };
        let registered = self.registered;
        let check = move || {
            let elected = election.is_elected(registered);
            (election, elected)
        };
        // Fails only if the check panicked or the runtime is shutting down.
        let Ok((election, elected)) = tokio::task::spawn_blocking(check).await else {
            return true;
        };
        self.election = Some(election);
        elected.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot check whether a newer plugin instance is running; publishing anyway");
            true
        })
    }

    /// Reads the Node each time, because a Node that was deleted and created again has a new
    /// UID, and slices owned by the old UID are garbage-collected. Publishing is rare.
    async fn pool(&self) -> Result<Pool, SliceError> {
        Ok(Pool {
            driver: self.driver.clone(),
            node: self.node.clone(),
            node_uid: self.requests.node_uid(&self.node).await?,
            taken: self.taken.clone(),
        })
    }

    /// Sends the requests of a stage and records the results. Returns the first error after
    /// all requests have ended.
    async fn apply(&mut self, stage: Stage, devices: &[v1::Device]) -> Result<(), SliceError> {
        let mut result = Ok(());
        let mut stored = Vec::new();
        for applied in self.requests.run(stage).await {
            match applied {
                Ok(Applied::Stored(slice)) => stored.push(*slice),
                Ok(Applied::Deleted(name)) => {
                    self.cache.slices.remove(&name);
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        if !stored.is_empty() {
            self.stored_forms.record(devices, &stored);
        }
        for slice in stored {
            self.cache.insert(slice);
        }
        result
    }

    /// Logs each dropped field once.
    // req: KUBELET-45
    fn log_dropped_fields(&mut self, dropped: Vec<DroppedField>) {
        if dropped == self.logged_drops {
            return;
        }
        for field in dropped
            .iter()
            .filter(|field| !self.logged_drops.contains(field))
        {
            tracing::warn!(devices = ?field.devices, "{field}");
        }
        self.logged_drops = dropped;
    }

    fn report_error(&self, error: &SliceError) {
        self.report(Publication::Failing {
            code: error.code(),
            reason: error.full_message(),
        });
    }

    fn report(&self, state: Publication) {
        self.state.send_if_modified(|current| {
            if *current == state {
                return false;
            }
            match &state {
                Publication::Failing { code, reason } => {
                    tracing::warn!(code, %reason, "cannot publish devices");
                }
                state => tracing::info!(?state, "device publication state changed"),
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
        | watcher::Error::WatchFailed(error) => root_cause(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}
