//! kubelet's calls: facts looked up, the node's claims changed.

use std::sync::Arc;

use compute_domain_node::{
    Attempt, ChannelRequest, Node, PrepareError, Prepared, UnprepareError, with_hint, with_sources,
};
use dra_checkpoint::{ClaimName, ClaimStatus};
use dra_kubelet::{Call, Claim, ClaimError, ClaimRef, Device, Driver};
use imex_runtime::Events;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use nvml_clique::HostImex;

use crate::domains::Domains;
use crate::hardware::Hardware;
use crate::metrics::{self, Metrics, Operation};
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

/// An error with the word that metrics count it under.
struct Failed {
    code: &'static str,
    error: ClaimError,
}

impl Driver for ComputeDomains {
    async fn prepare(&self, call: &Call, claim: &Claim) -> Result<Vec<Device>, ClaimError> {
        let attempt = self.metrics.attempt(Operation::Prepare);
        let prepared = self.prepare_once(call, claim).await;
        match prepared {
            Ok(prepared) => {
                attempt.succeeded();
                self.degraded(claim, &prepared).await;
                Ok(prepared.devices.into_iter().map(device).collect())
            }
            Err(failed) => Err(count(&attempt, failed)),
        }
    }

    async fn unprepare(&self, call: &Call, claim: &ClaimRef) -> Result<(), ClaimError> {
        let attempt = self.metrics.attempt(Operation::Unprepare);
        match self.unprepare_once(call, &claim.uid).await {
            Ok(()) => {
                attempt.succeeded();
                Ok(())
            }
            Err(failed) => Err(count(&attempt, failed)),
        }
    }
}

impl ComputeDomains {
    async fn prepare_once(&self, call: &Call, claim: &Claim) -> Result<Prepared, Failed> {
        let node = self.slot.get().map_err(Failed::checkpoint_closed)?;
        let name = claim_name(&claim.id);
        if let Some(held) = self.held(call, &node, &name).await? {
            return Ok(held);
        }
        let status = ClaimStatus::from_raw(&claim.status).map_err(|error| {
            Failed::from(PrepareError::BadClaim {
                reason: with_sources(&error),
            })
        })?;
        let request = ChannelRequest::of(&status).map_err(Failed::from)?;
        let domain_exists = self
            .domains
            .exists(&name.namespace, &request.domain)
            .await
            .map_err(Failed::domain_lookup)?;
        self.host_ready(call).await?;

        let hardware = Arc::clone(&self.hardware);
        let changed = Arc::clone(&node);
        let prepared = blocking(call, move || {
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
        })
        .await?;
        self.metrics.prepared_channels(node.prepared_channels());
        Ok(prepared)
    }

    async fn held(
        &self,
        call: &Call,
        node: &Arc<Node>,
        claim: &ClaimName,
    ) -> Result<Option<Prepared>, Failed> {
        let (node, hardware, claim) = (Arc::clone(node), Arc::clone(&self.hardware), claim.clone());
        blocking(call, move || {
            node.held(&claim, || hardware.look().major.ok())
        })
        .await
    }

    /// Asks the host's daemon, outside any lock.
    async fn host_ready(&self, call: &Call) -> Result<(), Failed> {
        let Some(host_imex) = self.host_imex.clone() else {
            return Ok(());
        };
        let limit = HOST_IMEX_LIMIT.min(call.remaining());
        let asked = tokio::task::spawn_blocking(move || host_imex.ready(limit)).await;
        match asked {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failed {
                code: error.code(),
                error: ClaimError::retry(with_hint(&with_sources(&error), error.hint())),
            }),
            Err(panic) => Err(Failed {
                code: "panic",
                error: ClaimError::retry(panic),
            }),
        }
    }

    async fn unprepare_once(&self, call: &Call, uid: &str) -> Result<(), Failed> {
        let node = self.slot.get().map_err(Failed::checkpoint_closed)?;
        let (changed, owned) = (Arc::clone(&node), uid.to_owned());
        blocking(call, move || changed.unprepare(&owned, Timestamp::now())).await?;
        self.metrics.prepared_channels(node.prepared_channels());
        Ok(())
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

/// Runs a step of the node's claims where it may block.
async fn blocking<T, E>(
    call: &Call,
    step: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Failed>
where
    T: Send + 'static,
    E: Into<Failed> + Send + 'static,
{
    match call.run_blocking(|| Ok(step())).await {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(error) => Err(Failed {
            code: "shutting-down",
            error,
        }),
    }
}

fn count(attempt: &metrics::Attempt, failed: Failed) -> ClaimError {
    attempt.failed(failed.code);
    failed.error
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

impl Failed {
    fn checkpoint_closed(error: ClaimError) -> Self {
        Self {
            code: "checkpoint",
            error,
        }
    }

    fn domain_lookup(error: ClaimError) -> Self {
        Self {
            code: "domain-lookup",
            error,
        }
    }
}

impl From<PrepareError> for Failed {
    fn from(error: PrepareError) -> Self {
        Self {
            code: error.code(),
            error: prepare_failed(&error),
        }
    }
}

impl From<UnprepareError> for Failed {
    fn from(error: UnprepareError) -> Self {
        Self {
            code: error.code(),
            error: unprepare_failed(&error),
        }
    }
}
