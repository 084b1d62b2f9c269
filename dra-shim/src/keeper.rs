//! Opens the checkpoint, rebuilds it after damage, and undoes claims that are
//! gone. A disk or API server that does not work is waited for.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_node::{Absences, Node, StartError, Started, with_sources};
use dra_checkpoint::{BootId, Damage};
use durable_file::OsDir;
use imex_runtime::{Condition, Events};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::args::Paths;
use crate::hardware::Hardware;
use crate::live_claims::LiveClaims;
use crate::metrics::Metrics;
use crate::node_slot::NodeSlot;

/// Pause after an attempt that failed, and between looks for damage: about when
/// a user looks again.
const AGAIN: Duration = Duration::from_secs(2);

/// Between two checks of the records' claims against the API server: five of
/// them fit into the time that a claim must be gone.
const RECONCILE_EVERY: Duration = Duration::from_secs(30);

/// Modes of the directories that the Go driver makes, too.
const DATA_MODE: u32 = 0o750;
const CDI_MODE: u32 = 0o755;

/// Keeps the node's claims in order for as long as the process lives.
pub(crate) struct Keeper {
    pub(crate) paths: Paths,
    pub(crate) slot: NodeSlot,
    pub(crate) hardware: Arc<Hardware>,
    pub(crate) live_claims: LiveClaims,
    pub(crate) ready: Condition,
    pub(crate) events: Arc<Events>,
    pub(crate) node: ObjectReference,
    pub(crate) metrics: Arc<Metrics>,
}

impl Keeper {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&self) {
        let node = self.open().await;
        self.slot.open(Arc::clone(&node));
        let mut absences = Absences::default();
        let mut reconcile_at = Instant::now();
        loop {
            if let Damage::Damaged {
                reason,
                set_aside_as,
                ..
            } = node.damage()
            {
                self.rebuild(&node, &format!("{reason}; it is kept as {set_aside_as}"))
                    .await;
            }
            self.ready.ready();
            self.metrics.prepared_channels(node.prepared_channels());
            if reconcile_at <= Instant::now() {
                self.reconcile(&node, &mut absences).await;
                reconcile_at = Instant::now() + RECONCILE_EVERY;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn open(&self) -> Arc<Node> {
        loop {
            let (paths, hardware) = (self.paths.clone(), Arc::clone(&self.hardware));
            let opened = tokio::task::spawn_blocking(move || open(&paths, &hardware)).await;
            let reason = match opened {
                Ok(Ok((node, started))) => {
                    log_started(&started);
                    return Arc::new(node);
                }
                Ok(Err(reason)) => reason,
                Err(panic) => panic.to_string(),
            };
            self.ready.not_ready(&reason);
            self.slot.closed_because(&reason);
            self.events
                .warning(&self.node, "CheckpointNotUsable", "Open", &reason)
                .await;
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Asks the API server who may hold this node's devices until it answers.
    async fn rebuild(&self, node: &Arc<Node>, damage: &str) {
        let reason = format!("the checkpoint is damaged and being rebuilt: {damage}");
        self.events
            .warning(&self.node, "CheckpointDamaged", "Rebuild", &reason)
            .await;
        loop {
            self.ready.not_ready(&reason);
            let live = self.live_claims.allocated_here().await;
            let rebuilt = match live {
                Ok(live) => {
                    let (node, hardware) = (Arc::clone(node), Arc::clone(&self.hardware));
                    let work = move || node.rebuild(live, hardware.look().major.ok());
                    match tokio::task::spawn_blocking(work).await {
                        Ok(outcome) => outcome.map_err(|error| with_sources(&error)),
                        Err(panic) => Err(panic.to_string()),
                    }
                }
                Err(error) => Err(imex_runtime::error_chain(&error)),
            };
            match rebuilt {
                Ok(started) => {
                    log_started(&started);
                    self.events
                        .normal(
                            &self.node,
                            "CheckpointRebuilt",
                            "Rebuild",
                            "holders are known again",
                        )
                        .await;
                    return;
                }
                Err(error) => warn!(error, "the checkpoint cannot be rebuilt yet"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// One check of every record's claim; undoes those that are gone for long,
    /// and forgets attempts whose fence has ended.
    async fn reconcile(&self, node: &Arc<Node>, absences: &mut Absences) {
        let expiring = Arc::clone(node);
        let expired = tokio::task::spawn_blocking(move || expiring.expire(Timestamp::now())).await;
        if let Ok(Err(error)) = expired {
            warn!(
                error = with_sources(&error),
                "aborted attempts stay for now"
            );
        }
        let claims = node.claims();
        let presence = self.live_claims.presence(&claims).await;
        for uid in absences.observe(&presence, Timestamp::now()) {
            let node = Arc::clone(node);
            let claim = uid.clone();
            match tokio::task::spawn_blocking(move || node.unprepare(&claim, Timestamp::now()))
                .await
            {
                Ok(Ok(())) => info!(
                    claim.uid = uid,
                    "undone: the claim is gone and kubelet did not ask"
                ),
                Ok(Err(error)) => warn!(
                    claim.uid = uid,
                    error = with_sources(&error),
                    "cannot be undone yet"
                ),
                Err(panic) => warn!(claim.uid = uid, %panic, "cannot be undone yet"),
            }
        }
    }
}

/// The reason is one line.
fn open(paths: &Paths, hardware: &Hardware) -> Result<(Node, Started), String> {
    let dir = |path: &std::path::Path, mode| {
        OsDir::create(path, mode).map_err(|error| with_sources(&error))
    };
    let checkpoint = Arc::new(dir(&paths.data_dir, DATA_MODE)?);
    let cdi = Arc::new(dir(&paths.cdi_root, CDI_MODE)?);
    let boot = BootId::current().map_err(|error| with_sources(&error))?;
    Node::start(checkpoint, cdi, boot, hardware.look().major.ok())
        .map_err(|error: StartError| with_sources(&error))
}

fn log_started(started: &Started) {
    info!(
        forgotten = started.forgotten,
        removed_files = ?started.removed_files,
        damage = ?started.damage,
        "checkpoint open"
    );
    for left in &started.left {
        warn!(reason = left, "not put right yet");
    }
}
