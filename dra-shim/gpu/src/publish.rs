//! Publishes what is known of the node's GPUs: in the slice for the scheduler, as device health for kubelet, as
//! condition, events and metrics for administrators.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::{Events, Heartbeat, ReadinessCondition};
use dra_kubelet::{ClaimRef, DesiredPool, DeviceHealth};
use k8s_openapi::api::core::v1::ObjectReference;
use plugin_parts::{UnsupportedFields, claim_reference};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::device_plugin::DevicePluginSockets;
use crate::gpu_devices::SharedClaims;
use crate::health::HealthReport;
use crate::held_devices::ChangedDevices;
use crate::metrics::GpuMetrics;
use crate::node_gpus::NodeGpus;
use crate::node_state::{NodeState, PublishSettings, gone_message};

/// Pause between two looks at what nothing reports: names of devices in the records, and sockets of device plugins.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Pause between two changes of what is published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// The task that publishes.
pub(crate) struct Publisher {
    pub(crate) pool: String,
    pub(crate) settings: PublishSettings,
    pub(crate) gpus: watch::Receiver<NodeGpus>,
    /// The faults of the GPUs; `None` until they are known.
    pub(crate) faults: watch::Receiver<Option<Arc<HealthReport>>>,
    pub(crate) shared_claims: SharedClaims,
    /// Fields that the API server has dropped.
    pub(crate) unsupported_fields: watch::Receiver<UnsupportedFields>,
    pub(crate) device_plugin: DevicePluginSockets,
    pub(crate) desired: watch::Sender<DesiredPool>,
    pub(crate) health: watch::Sender<Vec<DeviceHealth>>,
    pub(crate) ready: ReadinessCondition,
    pub(crate) metrics: GpuMetrics,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
    pub(crate) heartbeat: Heartbeat,
}

/// What events have said.
#[derive(Debug, Default)]
struct Reported {
    node: Option<String>,
    /// The claims whose devices are gone, each with the UUID.
    gone: BTreeSet<(ClaimRef, String)>,
}

// === impl Publisher ===

impl Publisher {
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut reported = Reported::default();
        let mut published_at: Option<Instant> = None;
        loop {
            self.heartbeat.beat();
            let mut next = Instant::now() + LOOK_EVERY;
            let may_publish = published_at.map(|it| it + PUBLISH_EVERY);
            if let Some(wait) = may_publish.filter(|it| *it > Instant::now()) {
                next = next.min(wait);
            } else {
                let state = self.look().await;
                if self.publish(&state, &mut reported) {
                    published_at = Some(Instant::now());
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep_until(next) => {}
                // The senders live as long as the program.
                Ok(()) = self.gpus.changed() => {}
                Ok(()) = self.faults.changed() => {}
                Ok(()) = self.unsupported_fields.changed() => {}
            }
        }
    }

    async fn look(&mut self) -> NodeState {
        let device_plugin = self.device_plugin.served().await;
        let records = self.shared_claims.get().map(|claims| claims.view()).ok();
        let gpus = self.gpus.borrow_and_update().clone();
        let changed = records.map(|records| ChangedDevices::new(&records, &gpus));
        NodeState {
            faults: self.faults.borrow_and_update().clone(),
            changed: changed.unwrap_or_default(),
            unsupported: *self.unsupported_fields.borrow_and_update(),
            device_plugin,
            settings: self.settings,
            gpus,
        }
    }

    /// Publishes what is known. Returns whether the slice or the health of a device is another one.
    // req: GPU-51
    fn publish(&self, state: &NodeState, reported: &mut Reported) -> bool {
        let pool = state.desired_pool();
        self.metrics.devices(&state.gpus);
        self.metrics.taints(&pool);
        self.metrics.held_devices_gone(state.changed.gone.len());
        let beside = self.settings.beside_device_plugin;
        self.metrics
            .device_plugin(state.device_plugin.len(), beside);
        let is_new_pool = self.desired.send_if_modified(|it| replace(it, pool));
        let health = state.health(&self.pool);
        let is_new_health = self.health.send_if_modified(|it| replace(it, health));
        match &state.gpus.no_driver {
            Some(reason) => self.ready.set_unmet(reason),
            None if state.is_known() => self.ready.set_met(),
            None => {}
        }
        if state.is_known() {
            self.report_node(state, &mut reported.node);
        }
        self.report_claims(state, &mut reported.gone);
        is_new_pool || is_new_health
    }

    /// One event about the node per change.
    fn report_node(&self, state: &NodeState, reported: &mut Option<String>) {
        let text = state.describe();
        if reported.as_ref() == Some(&text) {
            return;
        }
        info!(state = text, "GPUs of this node");
        if state.has_problem() {
            self.events
                .warning(&self.node, "GPUProblem", "Probe", &text);
        } else {
            self.events.normal(&self.node, "GPUsReady", "Probe", &text);
        }
        *reported = Some(text);
    }

    /// One event about each claim whose device is gone.
    // req: GPU-65
    fn report_claims(&self, state: &NodeState, reported: &mut BTreeSet<(ClaimRef, String)>) {
        let gone = &state.changed.gone;
        reported
            .retain(|(claim, uuid)| gone.iter().any(|it| it.claim == *claim && it.uuid == *uuid));
        for held in gone {
            if reported.insert((held.claim.clone(), held.uuid.clone())) {
                let text = format!(
                    "{}. Delete the pods of this claim to release it",
                    gone_message(held)
                );
                warn!(claim = %held.claim, "{text}");
                let claim = claim_reference(&held.claim);
                self.events.warning(&claim, "DeviceGone", "Probe", &text);
            }
        }
    }
}

fn replace<T: PartialEq>(slot: &mut T, value: T) -> bool {
    let changed = *slot != value;
    *slot = value;
    changed
}
