//! Watches the IMEX daemon on this node (driver-managed mode). Claims wait for it, and the device's
//! attributes have its place and whether it can be replaced.
//!
//! ```text
//! state.json ──► DaemonTask ──► waiting claims: read the file again
//!                    └────────► Advertiser: the place; whether the daemon drains and no claim is prepared
//! ```
//!
//! The file is read once a second, and every 50 ms while a claim waits. There is no inotify library
//! among the dependencies, and a read costs some microseconds. This only triggers attempts: the
//! commits of a Prepare read the file themselves.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::driver_managed::{DaemonPhase, DaemonState, Place};
use compute_domain_node::{ImexDaemon, ImexDaemonError, PrepareError, drained};
use daemon_runtime::{Events, Heartbeat};
use dra_common::error_chain;
use dra_kubelet::{ClaimError, Context};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::channel_devices::SharedClaims;
use crate::claim_errors::prepare_failed;

/// Delay until a draining daemon, or the end of its last claim, is noticed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Delay until a waiting claim notices that the daemon is ready.
const POLL_INTERVAL_WHILE_WAITING: Duration = Duration::from_millis(50);

/// A claim's wait ends this long before its attempt, so that kubelet gets the daemon's reason, not
/// a timeout.
const MARGIN: Duration = Duration::from_millis(500);

type StateResult = Result<DaemonState, ImexDaemonError>;

/// The daemon's state, for claims that wait for it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DaemonWatch(Arc<Shared>);

struct Shared {
    daemon: ImexDaemon,
    /// Has a receiver for each waiting claim.
    state: watch::Sender<Option<StateResult>>,
    /// Notified when a claim begins to wait.
    asked: Notify,
}

/// Watches the file until shutdown.
pub(crate) struct DaemonTask {
    pub(crate) watch: DaemonWatch,
    pub(crate) shared_claims: SharedClaims,
    pub(crate) published: watch::Sender<PublishedDaemon>,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
}

/// The part of the node's slice about the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PublishedDaemon {
    /// The UID of the daemon's pod while it drains and no claim is prepared.
    pub(crate) drained: Option<String>,
    /// The clique and place with which its `nvidia-imex` last ran since the node started. Kept while a daemon
    /// starts and has none for a moment: that must not cause a write of the slice.
    pub(crate) place: Option<(String, Place)>,
}

/// Whether a claim had to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    No,
    /// What was looked up before may be stale.
    Yes,
}

// === impl DaemonWatch ===

impl DaemonWatch {
    pub(crate) fn new(daemon: ImexDaemon) -> Self {
        Self(Arc::new(Shared {
            daemon,
            state: watch::Sender::new(None),
            asked: Notify::new(),
        }))
    }

    /// Returns as soon as the daemon reports ready in this clique. Each reason to wait is passed to `waits`.
    ///
    /// # Errors
    /// The daemon is not ready until shortly before the attempt ends. A retry may succeed.
    // req: MODE-17
    pub(crate) async fn require_ready(
        &self,
        context: &Context,
        clique: &str,
        waits: impl Fn(&ClaimError) + Send,
    ) -> Result<Waited, ClaimError> {
        let mut state = self.0.state.subscribe();
        let Err(mut reason) = self.check_ready(clique).await else {
            return Ok(Waited::No);
        };
        waits(&reason);
        self.0.asked.notify_one();
        let ready = async {
            loop {
                // Also after a second: the file may have changed and changed back between two reads.
                let _ = timeout(POLL_INTERVAL, state.changed()).await;
                match self.check_ready(clique).await {
                    Ok(()) => return,
                    Err(error) => {
                        waits(&error);
                        reason = error;
                    }
                }
            }
        };
        let limit = context.remaining().saturating_sub(MARGIN);
        let is_ready = tokio::select! {
            () = ready => true,
            () = sleep(limit) => false,
            () = context.cancellation().cancelled() => false,
        };
        if is_ready {
            Ok(Waited::Yes)
        } else {
            Err(reason)
        }
    }

    async fn check_ready(&self, clique: &str) -> Result<(), ClaimError> {
        let (shared, clique) = (Arc::clone(&self.0), clique.to_owned());
        let asked = spawn_blocking(move || shared.daemon.require_ready(&clique)).await;
        match asked {
            Ok(answer) => answer.map_err(|error| prepare_failed(&PrepareError::Daemon(error))),
            Err(_) => Err(
                ClaimError::retry("internal error of the plugin; see the plugin's log")
                    .with_code("panic"),
            ),
        }
    }
}

// === impl DaemonTask ===

impl DaemonTask {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.poll()).await;
    }

    async fn poll(&self) {
        let shared = &self.watch.0;
        loop {
            self.heartbeat.beat();
            let reader = Arc::clone(shared);
            // The panic hook has logged a panic.
            if let Ok(state) = spawn_blocking(move || reader.daemon.state()).await {
                let drained = self.drained_as(&state).await;
                self.published
                    .send_if_modified(|before| before.update(drained, &state));
                shared.state.send_if_modified(|before| {
                    let changed = before.as_ref() != Some(&state);
                    if changed {
                        log(&state);
                        self.report(&state);
                        *before = Some(state);
                    }
                    changed
                });
            }
            let pause = if shared.state.receiver_count() > 0 {
                POLL_INTERVAL_WHILE_WAITING
            } else {
                POLL_INTERVAL
            };
            self.heartbeat.idle();
            tokio::select! {
                () = sleep(pause) => {}
                () = shared.asked.notified() => {}
            }
        }
    }

    /// Reports a driver that is too old: all claims on the node wait until the administrator updates it.
    // req: DAEMON-11
    fn report(&self, state: &StateResult) {
        if let Ok(state) = state
            && state.phase == DaemonPhase::DriverTooOld
        {
            let note = format!("claims on this node wait: {}", state.reason);
            self.events
                .warning(&self.node, "ImexDriverTooOld", "Supervise", &note);
        }
    }

    /// The UID of the daemon's pod if the daemon drains and no claim is prepared.
    // req: MODE-19
    async fn drained_as(&self, state: &StateResult) -> Option<String> {
        let is_draining = matches!(state, Ok(state) if state.phase == DaemonPhase::Draining);
        if !is_draining {
            return None;
        }
        let claims = self.shared_claims.get().ok()?;
        spawn_blocking(move || drained(&claims)).await.ok()?
    }
}

// === impl PublishedDaemon ===

impl PublishedDaemon {
    /// Reads the file, so that the first slice already has the place. `drained` follows with the first read of the task.
    pub(crate) fn at_start(daemon: Option<&ImexDaemon>) -> Self {
        let mut published = Self::default();
        if let Some(daemon) = daemon {
            published.update(None, &daemon.state());
        }
        published
    }

    /// Returns whether anything has changed.
    fn update(&mut self, drained: Option<String>, state: &StateResult) -> bool {
        let place = state.as_ref().ok().and_then(|state| {
            let place = state.place?;
            Some((state.clique.clone(), place))
        });
        let before = self.clone();
        self.place = place.or_else(|| self.place.take());
        self.drained = drained;
        *self != before
    }
}

fn log(state: &StateResult) {
    match state {
        Ok(state) => {
            let DaemonState {
                pod_uid,
                clique,
                index,
                phase,
                reason,
                ..
            } = state;
            info!(
                pod_uid,
                clique,
                index,
                ?phase,
                reason,
                "state of the node's IMEX daemon"
            );
        }
        Err(error) => info!(
            code = error.code(),
            "no IMEX daemon is running on this node: {}",
            error_chain(error)
        ),
    }
}

#[cfg(test)]
#[path = "imex_daemon_tests.rs"]
mod tests;
