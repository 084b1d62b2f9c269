//! Opens the checkpoint and rebuilds it after damage, for the life of the process.
//! Retries while the disk or the API server fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::{Events, Heartbeat, ReadinessCondition};
use dra_checkpoint::{BootId, Damage};
use dra_common::error_chain;
use durable_file::OsDir;
use k8s_openapi::api::core::v1::ObjectReference;
use node_claims::{Devices, NodeClaims, RebuildReport, StartReport};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::claim_lookup::ClaimLookup;
use crate::metrics::Metrics;
use crate::plugin_devices::PluginDevices;
use crate::shared_claims::SharedClaims;

/// Pause after a failed attempt and between two checks for damage.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// How many claims an event names at most.
const NAMED: usize = 5;

/// The mode of the checkpoint's directory, as the Go driver creates it.
pub const DATA_MODE: u32 = 0o750;
/// The mode of the CDI directory, as the Go driver creates it.
pub(crate) const CDI_MODE: u32 = 0o755;

/// The task that opens and repairs the checkpoint.
pub(crate) struct CheckpointTask<P: PluginDevices> {
    pub(crate) data_dir: PathBuf,
    pub(crate) cdi_root: PathBuf,
    pub(crate) devices: Arc<P>,
    pub(crate) shared_claims: SharedClaims<P::Devices>,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) lookup: ClaimLookup,
    pub(crate) ready: ReadinessCondition,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
}

// === impl CheckpointTask ===

impl<P: PluginDevices> CheckpointTask<P> {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep_usable()).await;
    }

    async fn keep_usable(&self) {
        let claims = self.open().await;
        self.shared_claims.set_available(Arc::clone(&claims));
        loop {
            self.heartbeat.beat();
            find_lost_claims(&claims).await;
            if let Damage::Damaged {
                reason,
                set_aside_as,
                ..
            } = claims.damage()
            {
                let kept = format!(
                    "the damaged file is kept as {set_aside_as}; after the rebuild, its name has .settled- instead of .damaged-"
                );
                self.rebuild(&claims, &format!("{reason}; {kept}")).await;
            }
            self.ready.set_met();
            self.metrics.count_prepared::<P>(&claims);
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Opens the checkpoint; retries until that succeeds.
    async fn open(&self) -> Arc<NodeClaims<P::Devices>> {
        loop {
            self.heartbeat.beat();
            let (data_dir, cdi_root) = (self.data_dir.clone(), self.cdi_root.clone());
            let devices = Arc::clone(&self.devices);
            let opened = spawn_blocking(move || open(&*devices, &data_dir, &cdi_root)).await;
            let reason = match opened {
                Ok(Ok((claims, report))) => {
                    info!(
                        removed_records = report.removed_records,
                        damage = ?report.damage,
                        "checkpoint open"
                    );
                    warn_of_failures(&report.failures);
                    return Arc::new(claims);
                }
                Ok(Err(reason)) => reason,
                Err(join_error) => join_error.to_string(),
            };
            self.ready.set_unmet(&reason);
            self.shared_claims.set_unavailable(&reason);
            self.events
                .warning(&self.node, "CheckpointNotUsable", "Open", &reason);
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Rebuilds the checkpoint; retries until the API server answers.
    async fn rebuild(&self, claims: &Arc<NodeClaims<P::Devices>>, damage: &str) {
        let reason = format!("the checkpoint is damaged and being rebuilt: {damage}");
        self.events
            .warning(&self.node, "CheckpointDamaged", "Rebuild", &reason);
        let report = loop {
            self.heartbeat.beat();
            self.ready.set_unmet(&reason);
            match self.try_rebuild(claims).await {
                Ok(report) => break report,
                Err(error) => warn!(error, "cannot rebuild the checkpoint yet; retrying"),
            }
            sleep(RETRY_PAUSE).await;
        };
        let note = rebuilt_note(&report);
        info!(removed_specs = ?report.removed, "{note}");
        warn_of_failures(&report.failures);
        self.events
            .normal(&self.node, "CheckpointRebuilt", "Rebuild", &note);
    }

    async fn try_rebuild(
        &self,
        claims: &Arc<NodeClaims<P::Devices>>,
    ) -> Result<RebuildReport, String> {
        let node_claims = Arc::clone(claims);
        let lost = spawn_blocking(move || node_claims.lost_claims()).await;
        let lost = lost.map_err(|join_error| join_error.to_string())?;
        let lost = lost.map_err(|error| error_chain(&error))?;
        let allocated = self.lookup.find_allocated(&lost).await;
        let allocated = allocated.map_err(|error| error_chain(&error))?;
        let (claims, devices) = (Arc::clone(claims), Arc::clone(&self.devices));
        let work = move || claims.rebuild(allocated, &devices.facts());
        match spawn_blocking(work).await {
            Ok(rebuilt) => rebuilt.map_err(|error| error_chain(&error)),
            Err(join_error) => Err(join_error.to_string()),
        }
    }
}

/// Opens the checkpoint. An error is one line of text.
fn open<P: PluginDevices>(
    devices: &P,
    data_dir: &Path,
    cdi_root: &Path,
) -> Result<(NodeClaims<P::Devices>, StartReport), String> {
    let dir = |path: &Path, mode| OsDir::create(path, mode).map_err(|error| error_chain(&error));
    let checkpoint = Arc::new(dir(data_dir, DATA_MODE)?);
    let cdi = Arc::new(dir(cdi_root, CDI_MODE)?);
    let boot = BootId::current().map_err(|error| error_chain(&error))?;
    let started = devices.start(checkpoint, cdi, boot);
    started.map_err(|error| error_chain(&error))
}

/// Looks for CDI specs without a record. A failure is only logged: the next check follows soon.
async fn find_lost_claims<D: Devices>(claims: &Arc<NodeClaims<D>>) {
    let claims = Arc::clone(claims);
    match spawn_blocking(move || claims.note_lost_claims()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let error = error_chain(&error);
            debug!(
                error,
                "cannot search for CDI specs that have no record; retrying"
            );
        }
        Err(join_error) => {
            warn!(%join_error, "cannot search for CDI specs that have no record; retrying");
        }
    }
}

/// `the checkpoint is rebuilt, ...; restored claims of this node: 1 (train/a); ...`
fn rebuilt_note(report: &RebuildReport) -> String {
    let restored = report.restored.iter();
    let names = restored.map(|claim| format!("{}/{}", claim.namespace, claim.name));
    let names: Vec<_> = names.take(NAMED).collect();
    let of = if names.is_empty() {
        String::new()
    } else {
        format!(" ({})", names.join(", "))
    };
    format!(
        "the checkpoint is rebuilt, and claims can be prepared again; restored claims of this node: {}{of}; removed CDI specs of claims that are not allocated to this node: {}",
        report.restored.len(),
        report.removed.len()
    )
}

fn warn_of_failures(failures: &[String]) {
    for failure in failures {
        warn!(reason = failure, "a CDI spec does not match its record yet");
    }
}
