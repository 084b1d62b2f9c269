//! Restores CDI specs of prepared claims while the plugin runs: a clean-up job may empty
//! the directory, and a reloaded NVIDIA driver may have another channel major. Runtimes
//! read the specs whenever a container starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use compute_domain_node::NodeClaims;
use daemon_runtime::Heartbeat;
use dra_checkpoint::Damage;
use dra_common::error_chain;
use durable_file::OsDir;
use imex_cdi::Major;
use node_claims::RepairReport;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::checkpoint::CDI_MODE;
use crate::monitor::HardwareMonitor;
use crate::shared_claims::SharedClaims;

/// Pause between two checks, each one listing of a small directory. A restarting container
/// waits ten seconds first.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The task that checks the specs.
pub(crate) struct SpecKeeper {
    pub(crate) cdi_root: PathBuf,
    pub(crate) shared_claims: SharedClaims,
    pub(crate) hardware: Arc<HardwareMonitor>,
    pub(crate) heartbeat: Heartbeat,
}

/// Result of the last check.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct SpecCheck {
    /// The channel major of all specs.
    major: Option<Major>,
    /// Why specs could not be repaired, one line each.
    failures: Vec<String>,
}

// === impl SpecKeeper ===

impl SpecKeeper {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep()).await;
    }

    // req: NODE-27
    async fn keep(&self) {
        let mut kept = SpecCheck::default();
        loop {
            self.heartbeat.beat();
            if let Ok(claims) = self.shared_claims.get() {
                let (major, root) = (self.hardware.last_major(), self.cdi_root.clone());
                let before = kept.clone();
                let check_specs = move || check_specs(&claims, &root, major, &before);
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

// === impl Kept ===

impl SpecCheck {
    /// Adds a failure. The major is kept, so that the repair is retried.
    fn failed(&self, failure: String) -> Self {
        Self {
            major: self.major,
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
fn check_specs(
    claims: &NodeClaims,
    root: &Path,
    major: Option<Major>,
    before: &SpecCheck,
) -> SpecCheck {
    if claims.damage() != Damage::None {
        return before.clone(); // the rebuild restores the specs
    }
    let lacking = claims.lacks_specs().unwrap_or(true);
    let reloaded = major.is_some() && major != before.major;
    if !lacking && !reloaded {
        return SpecCheck {
            failures: Vec::new(),
            ..before.clone()
        };
    }
    // The directory itself may be missing.
    if let Err(error) = OsDir::create(root, CDI_MODE) {
        return before.failed(error_chain(&error));
    }
    match claims.repair_specs(&major) {
        Ok(RepairReport { written, failures }) => {
            if !written.is_empty() {
                info!(claims = ?written, "wrote CDI specs that were missing or had another channel major");
            }
            let complete = failures.is_empty();
            SpecCheck {
                major: if complete {
                    major.or(before.major)
                } else {
                    before.major
                },
                failures,
            }
        }
        Err(error) => before.failed(error_chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use compute_domain_node::{ChannelRequest, DomainState, ImexChannels, PrepareInput};
    use dra_checkpoint::{BootId, ClaimRef};
    use durable_file::SimDir;
    use node_claims::Moment;

    use super::*;
    use crate::test_objects::{EXCLUSIVE, mk_hardware, mk_status};

    fn mk_prepared(cdi: &Path) -> NodeClaims {
        let hardware = mk_hardware();
        let major = hardware.major.as_ref().ok().copied();
        let cdi = Arc::new(OsDir::create(cdi, CDI_MODE).unwrap());
        let boot = BootId::new("boot-1").unwrap();
        let (claims, _) = ImexChannels::new(EXCLUSIVE)
            .start(Arc::new(SimDir::new()), cdi, boot, major)
            .unwrap();
        let claim = ClaimRef {
            uid: "claim-1".to_owned(),
            name: "name".to_owned(),
            namespace: "default".to_owned(),
        };
        let status = mk_status(0);
        let input = PrepareInput {
            claim: &claim,
            status: &status,
            request: &ChannelRequest::from_status(&status).unwrap(),
            domain: DomainState::Unassigned,
            node: "node-a",
            hardware: &hardware,
            now: Moment::now(),
        };
        input.prepare(&claims).unwrap();
        claims
    }

    fn spec(cdi: &Path) -> String {
        let file = "k8s.compute-domain.nvidia.com-claim_claim-1.yaml";
        std::fs::read_to_string(cdi.join(file)).unwrap_or_default()
    }

    // req: NODE-27, NODE-28
    #[test]
    fn an_empty_or_missing_directory_is_repaired_and_a_new_major_written() {
        let root = tempfile::tempdir().unwrap();
        let cdi = root.path().join("cdi");
        let claims = mk_prepared(&cdi);
        let major = Major::new(235).ok();
        let kept = check_specs(&claims, &cdi, major, &SpecCheck::default());
        assert_eq!(kept.major, major);
        let whole = spec(&cdi);

        std::fs::remove_dir_all(&cdi).unwrap();
        let kept = check_specs(&claims, &cdi, major, &kept);
        assert_eq!(spec(&cdi), whole);

        let reloaded = Major::new(300).ok();
        let kept = check_specs(&claims, &cdi, reloaded, &kept);
        assert!(spec(&cdi).contains(r#""major":300"#));
        assert_eq!(
            check_specs(&claims, &cdi, None, &kept),
            kept,
            "unloaded for now"
        );
        assert!(spec(&cdi).contains(r#""major":300"#));
    }

    #[test]
    fn a_failed_repair_is_reported_and_retried() {
        let root = tempfile::tempdir().unwrap();
        let cdi = root.path().join("cdi");
        let claims = mk_prepared(&cdi);
        std::fs::remove_dir_all(&cdi).unwrap();
        std::fs::write(&cdi, "a file in place of the directory").unwrap();
        let failed = check_specs(&claims, &cdi, Major::new(235).ok(), &SpecCheck::default());
        assert!(!failed.failures.is_empty());
        std::fs::remove_file(&cdi).unwrap();
        let kept = check_specs(&claims, &cdi, Major::new(235).ok(), &failed);
        assert_eq!(kept.failures, Vec::<String>::new());
        assert!(!spec(&cdi).is_empty());
    }
}
