//! Implements `dra_kubelet::Driver`: looks up the facts for a call, then prepares or unprepares the claim.

use std::path::PathBuf;
use std::sync::Arc;

use dra_checkpoint::KubeletDevice;
use dra_kubelet::{Claim, ClaimError, ClaimRef, Context, Driver, PreparedDevice};
use gpu_node::{NodeClaims, PrepareError, WantedGpus};
use imex_cdi::Kind;
use node_claims::{Moment, Prepare};
use plugin_parts::{
    InFlight, Metrics, ReportedHolders, Step, blocking, prepare_failed, to_device,
    unprepare_failed, with_prepared_at,
};
use tokio::task::spawn_blocking;

use crate::gpu_devices::{GpuDevices, SharedClaims};
use crate::monitor::GpuMonitor;

/// The driver of GPU claims. Cheap to clone.
#[derive(Clone)]
pub(crate) struct GpuDriver {
    pub(crate) shared_claims: SharedClaims,
    pub(crate) monitor: GpuMonitor,
    /// Gets the holders of devices that other claims need.
    pub(crate) holders: ReportedHolders,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) in_flight: InFlight,
    /// The directory of the CDI specs.
    pub(crate) cdi_root: PathBuf,
}

impl Driver for GpuDriver {
    async fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> Result<Vec<PreparedDevice>, ClaimError> {
        let devices = self.prepare_once(context, claim).await?;
        Ok(devices.into_iter().map(to_device).collect())
    }

    async fn unprepare(&self, context: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        let claims = self.shared_claims.get()?;
        let (node_claims, uid) = (Arc::clone(&claims), claim.uid.clone());
        let unprepare = move || node_claims.unprepare(&uid, Moment::now());
        blocking(context, unprepare, unprepare_failed).await?;
        self.metrics.count_prepared::<GpuDevices>(&claims);
        Ok(())
    }
}

impl GpuDriver {
    async fn prepare_once(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> Result<Vec<KubeletDevice>, ClaimError> {
        self.in_flight
            .reserved_for(&claim.id, claim.status.reserved_for());
        let claims = self.shared_claims.get()?;
        self.in_flight
            .step(&claim.id, Step::WRITING_RECORD_AND_SPEC);
        let (node, monitor) = (Arc::clone(&claims), self.monitor.clone());
        let (id, status) = (claim.id.clone(), claim.status.clone());
        let prepare = move || Ok(prepare(&node, &monitor, id, status));
        match context.run_blocking(prepare).await? {
            Ok(devices) => {
                self.metrics.count_prepared::<GpuDevices>(&claims);
                Ok(devices)
            }
            Err(error) => {
                if may_change(&error) {
                    self.monitor.read_again();
                }
                let failed = prepare_failed(&error, error.class(), error.code(), error.hint());
                Err(match error.holder() {
                    Some(holder) => self.held(failed, holder.uid.clone()).await,
                    None => failed,
                })
            }
        }
    }

    /// Has the holder checked, since it may be deleted, and adds to `error` since when it holds the device.
    async fn held(&self, error: ClaimError, holder: String) -> ClaimError {
        self.holders.report(&holder);
        let (cdi_root, plain) = (self.cdi_root.clone(), error.clone());
        let kind = Kind::gpu_claim();
        let with_time = move || with_prepared_at(error, &cdi_root, &kind, &holder);
        spawn_blocking(with_time).await.unwrap_or(plain)
    }
}

/// Answers if the claim is prepared, else prepares it. Blocks.
fn prepare(
    claims: &NodeClaims,
    monitor: &GpuMonitor,
    id: ClaimRef,
    status: dra_kubelet::ClaimStatus,
) -> Result<Vec<KubeletDevice>, PrepareError> {
    let facts = monitor.host();
    if claims.cached_as_prepared(&id.uid)
        && let Some(devices) = claims.already_prepared(&id, facts.clone())?
    {
        return Ok(devices);
    }
    let request = match claims.devices().request(&status) {
        Ok(request) => request,
        // Not an error if another instance has prepared the claim meanwhile.
        Err(error) => return claims.already_prepared(&id, facts)?.ok_or(error),
    };
    claims.prepare(Prepare {
        claim: id,
        status,
        request: WantedGpus {
            request,
            host: monitor.host_for_claim(),
        },
        facts,
        now: Moment::now(),
    })
}

/// Whether another reading of the GPUs may help.
fn may_change(error: &PrepareError) -> bool {
    matches!(
        error,
        PrepareError::NoSuchDevice { .. } | PrepareError::NotUsable { .. }
    )
}
