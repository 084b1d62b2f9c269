//! Restores CDI specs of prepared claims while the plugin runs: a clean-up job may empty
//! the directory, and the facts may change, as with a reloaded NVIDIA driver. Runtimes
//! read the specs whenever a container starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::Heartbeat;
use dra_checkpoint::Damage;
use dra_common::error_chain;
use durable_file::OsDir;
use node_claims::{NodeClaims, RepairReport};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::checkpoint::CDI_MODE;
use crate::plugin_devices::{Facts, PluginDevices};
use crate::shared_claims::SharedClaims;

/// Pause between two checks, each one listing of a small directory. A restarting container
/// waits ten seconds first.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The task that checks the specs.
pub struct SpecKeeper<P: PluginDevices> {
    /// The directory of the specs.
    pub cdi_root: PathBuf,
    /// The prepared claims.
    pub shared_claims: SharedClaims<P::Devices>,
    /// Has the facts for the specs.
    pub devices: Arc<P>,
    /// Of this task.
    pub heartbeat: Heartbeat,
}

/// Result of the last check.
#[derive(Debug, Clone)]
struct SpecCheck<F> {
    /// The facts at the last complete repair. `None`: there was none yet.
    facts: Option<F>,
    /// Why specs could not be repaired, one line each.
    failures: Vec<String>,
}

// === impl SpecKeeper ===

impl<P: PluginDevices> SpecKeeper<P> {
    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep()).await;
    }

    // req: NODE-27
    async fn keep(&self) {
        let mut kept = SpecCheck {
            facts: None,
            failures: Vec::new(),
        };
        loop {
            self.heartbeat.beat();
            if let Ok(claims) = self.shared_claims.get() {
                let (devices, root) = (Arc::clone(&self.devices), self.cdi_root.clone());
                let before = kept.clone();
                let check_specs = move || check_specs(&*devices, &claims, &root, &before);
                match spawn_blocking(check_specs).await {
                    Ok(now) => {
                        now.log_new_failures(&kept);
                        kept = now;
                    }
                    Err(error) => warn!(%error, "cannot check the CDI specs"),
                }
            }
            sleep(CHECK_INTERVAL).await;
        }
    }
}

// === impl SpecCheck ===

impl<F: Clone> SpecCheck<F> {
    /// Adds a failure. The facts are kept, so that the repair is retried.
    fn failed(&self, failure: String) -> Self {
        Self {
            facts: self.facts.clone(),
            failures: vec![failure],
        }
    }

    fn log_new_failures(&self, before: &Self) {
        for failure in &self.failures {
            if !before.failures.contains(failure) {
                warn!(reason = failure, "a CDI spec does not match its record");
            }
        }
    }
}

/// Checks the specs, without a lock, and repairs them only if needed.
fn check_specs<P: PluginDevices>(
    devices: &P,
    claims: &NodeClaims<P::Devices>,
    root: &Path,
    before: &SpecCheck<Facts<P>>,
) -> SpecCheck<Facts<P>> {
    if claims.damage() != Damage::None {
        return before.clone(); // the rebuild restores the specs
    }
    let lacking = claims.lacks_specs().unwrap_or(true);
    let facts = devices.facts();
    let have_changed = before.facts.as_ref() != Some(&facts);
    if !lacking && !have_changed {
        return SpecCheck {
            failures: Vec::new(),
            ..before.clone()
        };
    }
    // The directory itself may be missing.
    if let Err(error) = OsDir::create(root, CDI_MODE) {
        return before.failed(error_chain(&error));
    }
    match claims.repair_specs(&facts) {
        Ok(RepairReport { written, failures }) => {
            if !written.is_empty() {
                info!(claims = ?written, "wrote CDI specs that were missing or had changed");
            }
            let facts = if failures.is_empty() {
                Some(facts)
            } else {
                before.facts.clone()
            };
            SpecCheck { facts, failures }
        }
        Err(error) => before.failed(error_chain(&error)),
    }
}
