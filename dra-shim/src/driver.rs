//! kubelet's calls: facts looked up, the node's claims changed.

use std::sync::Arc;

use compute_domain_node::{
    Attempt, ChannelRequest, Node, PrepareError, Prepared, with_hint, with_sources,
};
use dra_checkpoint::{ClaimName, ClaimStatus};
use dra_kubelet::{Call, Claim, ClaimError, ClaimRef, Device, Driver};
use imex_runtime::Events;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use nvml_clique::HostImex;

use crate::domains::Domains;
use crate::hardware::Hardware;
use crate::metrics::Metrics;
use crate::node_slot::NodeSlot;
use crate::words::{prepare_failed, unprepare_failed};

/// The longest that `nvidia-imex-ctl` gets; it answers in milliseconds.
const HOST_IMEX_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// The driver of ComputeDomain claims. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ComputeDomains {
    pub(crate) slot: NodeSlot,
    pub(crate) hardware: Arc<Hardware>,
    pub(crate) domains: Domains,
    /// Set if the operator gave the host daemon's socket.
    pub(crate) host_imex: Option<HostImex>,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Driver for ComputeDomains {
    async fn prepare(&self, call: &Call, claim: &Claim) -> Result<Vec<Device>, ClaimError> {
        let prepared = self.prepare_once(call, claim).await?;
        self.degraded(claim, &prepared).await;
        Ok(prepared.devices.into_iter().map(device).collect())
    }

    async fn unprepare(&self, call: &Call, claim: &ClaimRef) -> Result<(), ClaimError> {
        let node = self.slot.get()?;
        let (changed, uid) = (Arc::clone(&node), claim.uid.clone());
        let unprepare = move || changed.unprepare(&uid, Timestamp::now());
        blocking(call, unprepare, unprepare_failed).await?;
        self.metrics.prepared_channels(node.prepared_channels());
        Ok(())
    }
}

impl ComputeDomains {
    async fn prepare_once(&self, call: &Call, claim: &Claim) -> Result<Prepared, ClaimError> {
        let node = self.slot.get()?;
        let name = claim_name(&claim.id);
        if let Some(held) = self.held(call, &node, &name).await? {
            return Ok(held);
        }
        let status = ClaimStatus::from_raw(&claim.status).map_err(|error| {
            prepare_failed(&PrepareError::BadClaim {
                reason: with_sources(&error),
            })
        })?;
        let request = ChannelRequest::of(&status).map_err(|error| prepare_failed(&error))?;
        let domain_exists = self
            .domains
            .exists(&name.namespace, &request.domain)
            .await?;
        self.host_ready(call).await?;

        let hardware = Arc::clone(&self.hardware);
        let changed = Arc::clone(&node);
        let prepare = move || {
            let world = hardware.look();
            let now = Timestamp::now();
            changed.prepare(&Attempt {
                claim: &name,
                status: &status,
                request: &request,
                domain_exists,
                world: &world,
                now,
            })
        };
        let prepared = blocking(call, prepare, prepare_failed).await?;
        self.metrics.prepared_channels(node.prepared_channels());
        Ok(prepared)
    }

    async fn held(
        &self,
        call: &Call,
        node: &Arc<Node>,
        claim: &ClaimName,
    ) -> Result<Option<Prepared>, ClaimError> {
        let (node, hardware, claim) = (Arc::clone(node), Arc::clone(&self.hardware), claim.clone());
        let held = move || node.held(&claim, || hardware.look().major.ok());
        blocking(call, held, prepare_failed).await
    }

    /// Asks the host's daemon, outside any lock.
    async fn host_ready(&self, call: &Call) -> Result<(), ClaimError> {
        let Some(host_imex) = self.host_imex.clone() else {
            return Ok(());
        };
        let limit = HOST_IMEX_LIMIT.min(call.remaining());
        let asked = tokio::task::spawn_blocking(move || host_imex.check_ready(limit)).await;
        match asked {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let words = with_hint(&with_sources(&error), error.hint());
                Err(ClaimError::retry(words).with_code(error.code()))
            }
            Err(panic) => Err(ClaimError::retry(panic).with_code("panic")),
        }
    }

    async fn degraded(&self, claim: &Claim, prepared: &Prepared) {
        let Some(what) = &prepared.degraded else {
            return;
        };
        let object = ObjectReference {
            api_version: Some("resource.k8s.io/v1".to_owned()),
            kind: Some("ResourceClaim".to_owned()),
            name: Some(claim.id.name.clone()),
            namespace: Some(claim.id.namespace.clone()),
            uid: Some(claim.id.uid.clone()),
            ..ObjectReference::default()
        };
        self.events
            .warning(&object, "FabricDegraded", "Prepare", what)
            .await;
    }
}

/// Runs a step of the node's claims where it may block; `words` makes its error
/// one for kubelet.
async fn blocking<T, E>(
    call: &Call,
    step: impl FnOnce() -> Result<T, E> + Send + 'static,
    words: fn(&E) -> ClaimError,
) -> Result<T, ClaimError>
where
    T: Send + 'static,
    E: 'static,
{
    call.run_blocking(move || step().map_err(|error| words(&error)))
        .await
}

fn claim_name(id: &ClaimRef) -> ClaimName {
    ClaimName {
        uid: id.uid.clone(),
        name: id.name.clone(),
        namespace: id.namespace.clone(),
    }
}

fn device(device: compute_domain_node::Device) -> Device {
    Device {
        requests: device.requests.unwrap_or_default(),
        pool: device.pool_name,
        device: device.device_name,
        cdi_ids: device.cdi_device_ids.unwrap_or_default(),
        share_id: device.share_id,
    }
}
