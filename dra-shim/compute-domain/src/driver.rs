//! Implements `dra_kubelet::Driver`: looks up the facts for a call, then prepares or
//! unprepares the claim.

use std::path::PathBuf;
use std::sync::Arc;

use compute_domain_api::names::DOMAIN_LABEL;
use compute_domain_api::names::clique_of_pool;
use compute_domain_node::{
    ChannelRequest, DomainState, Hardware, Moment, NodeClaims, PrepareError, PrepareInput, Prepared,
};
use daemon_runtime::Events;
use dra_checkpoint::KubeletDevice;
use dra_kubelet::{Claim, ClaimError, ClaimRef, ClaimStatus, Context, Driver, PreparedDevice};
use tokio::task::spawn_blocking;

use crate::claim_errors::{prepare_failed, unprepare_failed};
use crate::claim_reference::claim_reference;
use crate::claim_status::{ClaimStatusWriter, DeviceReport, Reported, reported};
use crate::domain_lookup::DomainLookup;
use crate::held_since;
use crate::host_imex::HostImexGate;
use crate::imex_daemon::{DaemonWatch, Waited};
use crate::in_flight::{InFlight, Step};
use crate::metrics::Metrics;
use crate::monitor::HardwareMonitor;
use crate::reported_holders::ReportedHolders;
use crate::shared_claims::SharedClaims;

/// The driver of ComputeDomain claims. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ComputeDomainDriver {
    pub(crate) shared_claims: SharedClaims,
    pub(crate) hardware: Arc<HardwareMonitor>,
    pub(crate) domains: DomainLookup,
    /// Gets the holders of devices that other claims need.
    pub(crate) holders: ReportedHolders,
    /// The IMEX daemon on this node, in the driver-managed mode.
    pub(crate) imex_daemon: Option<DaemonWatch>,
    /// The `nvidia-imex` of the host or of the IMEX daemon.
    pub(crate) host_imex: HostImexGate,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) in_flight: InFlight,
    /// The name of this node.
    pub(crate) node: Arc<str>,
    /// The directory of the CDI specs.
    pub(crate) cdi_root: PathBuf,
    pub(crate) claim_status: ClaimStatusWriter,
}

/// A claim and the facts for the decision about it, except the hardware.
struct ReadyClaim {
    name: ClaimRef,
    status: ClaimStatus,
    request: ChannelRequest,
    domain: DomainState,
    /// The name of this node.
    node: Arc<str>,
}

impl Driver for ComputeDomainDriver {
    async fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> Result<Vec<PreparedDevice>, ClaimError> {
        let prepared = self.prepare_once(context, claim).await?;
        if let Some(reason) = &prepared.degraded {
            self.warn_of_degraded_fabric(&claim.id, reason);
        }
        if let Some(reason) = &prepared.without_device {
            self.report_without_channel(&claim.id, reason);
        }
        self.report(claim)?;
        Ok(prepared.devices.into_iter().map(to_device).collect())
    }

    // req: NODE-20
    async fn unprepare(&self, context: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        let claims = self.shared_claims.get()?;
        let (node_claims, uid) = (Arc::clone(&claims), claim.uid.clone());
        let unprepare = move || node_claims.unprepare(&uid, Moment::now());
        blocking(context, unprepare, unprepare_failed).await?;
        self.metrics.prepared_channels(claims.prepared_channels());
        Ok(())
    }
}

impl ComputeDomainDriver {
    // req: NODE-23
    async fn prepare_once(&self, context: &Context, claim: &Claim) -> Result<Prepared, ClaimError> {
        self.in_flight
            .reserved_for(&claim.id, claim.status.reserved_for());
        let claims = self.shared_claims.get()?;
        if claims.cached_as_prepared(&claim.id.uid)
            && let Some(prepared) = self.already_prepared(context, &claims, &claim.id).await?
        {
            return Ok(prepared);
        }
        let ready = match self.look_up(context, claim).await {
            Ok(ready) => ready,
            // Not an error if another instance has prepared the claim meanwhile.
            Err(error) => {
                let prepared = self.already_prepared(context, &claims, &claim.id).await?;
                return prepared.ok_or(error);
            }
        };
        self.in_flight.step(&claim.id, Step::WritingRecordAndSpec);
        let (node, hardware) = (Arc::clone(&claims), Arc::clone(&self.hardware));
        let prepare = move || Ok(ready.prepare(&node, &hardware.snapshot_for_claim()));
        match context.run_blocking(prepare).await? {
            Ok(prepared) => {
                self.metrics.prepared_channels(claims.prepared_channels());
                Ok(prepared)
            }
            Err(error) => Err(match error.holder() {
                Some(holder) => self.held(prepare_failed(&error), holder.uid.clone()).await,
                None => prepare_failed(&error),
            }),
        }
    }

    /// Has the holder checked, since it may be deleted, and adds to `error` since when it holds the device.
    async fn held(&self, error: ClaimError, holder: String) -> ClaimError {
        self.holders.report(&holder);
        let (cdi_root, plain) = (self.cdi_root.clone(), error.clone());
        let with_time = move || held_since::with_time(error, &cdi_root, &holder);
        spawn_blocking(with_time).await.unwrap_or(plain)
    }

    /// Looks up the facts for a claim that is not prepared: from the claim, the API server and the host.
    async fn look_up(&self, context: &Context, claim: &Claim) -> Result<ReadyClaim, ClaimError> {
        let request = ChannelRequest::from_status(&claim.status);
        let request = request.map_err(|error| prepare_failed(&error))?;
        let label = claim.labels.get(DOMAIN_LABEL).map(String::as_str);
        let request = request.with_label(label);
        self.in_flight.step(&claim.id, Step::LookingUpDomain);
        let mut domain = self.domains.state(claim, &request.domain).await?;
        if self.wait_for_imex(context, claim).await? == Waited::Yes {
            domain = self.domains.state(claim, &request.domain).await?;
        }
        Ok(ReadyClaim {
            name: claim.id.clone(),
            status: claim.status.clone(),
            request,
            domain,
            node: Arc::clone(&self.node),
        })
    }

    /// Waits until the IMEX daemon of this node is ready, if claims need one.
    async fn wait_for_imex(&self, context: &Context, claim: &Claim) -> Result<Waited, ClaimError> {
        let mut waited = Waited::No;
        if let Some(daemon) = &self.imex_daemon {
            // Without a clique, claims need no daemon or wait for the fabric.
            let Some(clique) = self.hardware.clique() else {
                return Ok(Waited::No);
            };
            self.in_flight.step(&claim.id, Step::WaitingForImexDaemon);
            let waits = |reason: &ClaimError| self.in_flight.waits(&claim.id, reason);
            waited = daemon.require_ready(context, &clique, waits).await?;
        }
        if self.host_imex.is_configured() {
            self.in_flight.step(&claim.id, Step::CheckingImex);
            self.host_imex.require_ready(context.remaining()).await?;
        }
        Ok(waited)
    }

    async fn already_prepared(
        &self,
        context: &Context,
        claims: &Arc<NodeClaims>,
        claim: &ClaimRef,
    ) -> Result<Option<Prepared>, ClaimError> {
        let (claims, claim) = (Arc::clone(claims), claim.clone());
        let hardware = Arc::clone(&self.hardware);
        let look_up = move || claims.already_prepared(&claim, hardware.major());
        blocking(context, look_up, prepare_failed).await
    }

    /// Reports the prepared device in the claim's status, unless an earlier Prepare did. A clique's channel
    /// is not reported: all nodes of a gang would write the same entry.
    fn report(&self, claim: &Claim) -> Result<(), ClaimError> {
        let [result] = claim.results.as_slice() else {
            return Ok(());
        };
        if clique_of_pool(result.pool()).is_some() {
            return Ok(());
        }
        let reported = reported(&claim.status, result);
        if reported == Reported::ThisDevice {
            return Ok(());
        }
        // The record may be from another mode of the Go driver.
        let request = ChannelRequest::from_status(&claim.status).ok();
        let channel = self.shared_claims.get()?.channel(&claim.id.uid);
        let (Some(request), Some(channel)) = (request, channel) else {
            return Ok(());
        };
        self.claim_status.write(DeviceReport {
            claim: claim.id.clone(),
            result: result.clone(),
            domain: request.domain.as_str().to_owned(),
            clique: self.hardware.clique(),
            channel: channel.get(),
            has_others: reported == Reported::Others,
        });
        Ok(())
    }

    // req: MODE-20
    fn report_without_channel(&self, claim: &ClaimRef, reason: &str) {
        let note = format!(
            "prepared without an IMEX channel, because this node is in no NVLink clique: {reason}"
        );
        let claim = claim_reference(claim);
        self.events
            .warning(&claim, "NoIMEXChannel", "Prepare", &note);
    }

    fn warn_of_degraded_fabric(&self, claim: &ClaimRef, reason: &str) {
        let claim = claim_reference(claim);
        self.events
            .warning(&claim, "FabricDegraded", "Prepare", reason);
    }
}

// === impl ReadyClaim ===

impl ReadyClaim {
    /// Prepares the claim. Blocks.
    fn prepare(&self, claims: &NodeClaims, hardware: &Hardware) -> Result<Prepared, PrepareError> {
        claims.prepare(&PrepareInput {
            claim: &self.name,
            status: &self.status,
            request: &self.request,
            domain: self.domain,
            node: &self.node,
            hardware,
            now: Moment::now(),
        })
    }
}

/// Runs `operation` on a thread that may block, and converts its error.
async fn blocking<T, E>(
    context: &Context,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
    to_claim_error: impl FnOnce(&E) -> ClaimError + Send + 'static,
) -> Result<T, ClaimError>
where
    T: Send + 'static,
    E: 'static,
{
    context
        .run_blocking(move || operation().map_err(|error| to_claim_error(&error)))
        .await
}

fn to_device(device: KubeletDevice) -> PreparedDevice {
    PreparedDevice {
        requests: device.requests.unwrap_or_default(),
        pool: device.pool_name,
        device: device.device_name,
        cdi_ids: device.cdi_device_ids.unwrap_or_default(),
        share_id: device.share_id,
    }
}
