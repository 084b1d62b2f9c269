//! Keeps what claims have changed on GPUs: changes it again after the driver was loaded again, and undoes what could
//! not be undone when its claim ended.

use std::collections::BTreeSet;
use std::time::Duration;

use daemon_runtime::{Events, Heartbeat};
use dra_checkpoint::{ClaimRef, Damage};
use dra_common::error_chain;
use gpu_node::NotRepaired;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::gpu_devices::SharedClaims;
use crate::metrics::GpuMetrics;
use crate::node_gpus::NodeGpus;

/// Pause between two looks at the journals, which is a listing of a small directory.
const PAUSE: Duration = Duration::from_secs(10);

/// The task.
pub(crate) struct EffectsKeeper {
    pub(crate) shared_claims: SharedClaims,
    pub(crate) gpus: watch::Receiver<NodeGpus>,
    pub(crate) metrics: GpuMetrics,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
    pub(crate) heartbeat: Heartbeat,
}

/// Which prepared claims are repaired.
#[derive(Debug, Clone)]
enum Due {
    All,
    These(BTreeSet<ClaimRef>),
}

// === impl EffectsKeeper ===

impl EffectsKeeper {
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep()).await;
    }

    // req: GPU-61, GPU-63
    async fn keep(&mut self) {
        let mut reported = Vec::new();
        // The driver may have been loaded while the plugin was down.
        let mut due = Due::All;
        loop {
            self.heartbeat.beat();
            let has_gpus = self.gpus.borrow_and_update().host.is_some();
            if has_gpus && let Some(repaired) = self.repair(due.clone()).await {
                let failures = match repaired {
                    Ok(failed) => {
                        due = Due::These(failed.claims);
                        failed.reasons
                    }
                    Err(error) => vec![error_chain(&error)],
                };
                if failures != reported {
                    self.report(&failures);
                    reported = failures;
                }
            }
            tokio::select! {
                // A reading has ended: the driver may have been loaded again, or a GPU reset.
                Ok(()) = self.gpus.changed() => due = Due::All,
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// `None`: the claims are not known now.
    async fn repair(&self, due: Due) -> Option<Result<NotRepaired, durable_file::Error>> {
        let claims = self.shared_claims.get().ok()?;
        if claims.damage() != Damage::None {
            return None;
        }
        let repair = move || {
            let view = || claims.read_view().unwrap_or_else(|_| claims.view());
            let effects = &claims.devices().effects;
            effects.repair(view, |claim| match &due {
                Due::All => true,
                Due::These(claims) => claims.contains(claim),
            })
        };
        // A GPU that hangs must not restart the plugin.
        self.heartbeat.idle();
        let repaired = spawn_blocking(repair).await.ok();
        self.heartbeat.beat();
        repaired
    }

    fn report(&self, failures: &[String]) {
        self.metrics.not_restored(failures.len());
        if failures.is_empty() {
            info!("all GPUs are as claims want them");
            return;
        }
        let text = failures.join("; ");
        warn!(
            failures = text,
            "GPUs are not as claims want them; retrying"
        );
        self.events
            .warning(&self.node, "GPUNotRestored", "Repair", &text);
    }
}
