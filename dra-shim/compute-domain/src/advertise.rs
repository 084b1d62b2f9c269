//! Publishes every change of the hardware: in the slice for the scheduler, as
//! device health for kubelet, as conditions and events for administrators.

use std::sync::Arc;

use compute_domain_node::Hardware;
use compute_domain_node::policy::PrepareAnswer;
use daemon_runtime::{Events, Heartbeat, ReadinessCondition};
use dra_kubelet::{DesiredPool, DeviceHealth};
use k8s_openapi::api::core::v1::ObjectReference;
use nvml_clique::NodeFabricState;
use plugin_parts::UnsupportedFields;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::device::{Placements, add_daemon, channel_health};
use crate::device_form::DeviceForm;
use crate::imex_daemon::PublishedDaemon;
use crate::monitor::HardwareMonitor;
use crate::node_metrics::NodeMetrics;

/// Publishes the state of the hardware.
pub(crate) struct Advertiser {
    pub(crate) pool: String,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) placements: Placements,
    /// Fields that the API server has dropped. Fixed until the plugin restarts: checking
    /// again would publish the device without its taint.
    pub(crate) unsupported_fields: watch::Receiver<UnsupportedFields>,
    /// Whether the device is for one claim or for many.
    pub(crate) form: watch::Receiver<DeviceForm>,
    /// The part of the slice about the node's IMEX daemon; empty in the host-managed mode.
    pub(crate) daemon: watch::Receiver<PublishedDaemon>,
    pub(crate) desired: watch::Sender<DesiredPool>,
    pub(crate) health: watch::Sender<Vec<DeviceHealth>>,
    pub(crate) fabric_ready: ReadinessCondition,
    pub(crate) major_ready: ReadinessCondition,
    pub(crate) metrics: NodeMetrics,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
}

impl Advertiser {
    /// Advertises every change of the hardware until `shutdown`.
    pub(crate) async fn run(mut self, monitor: Arc<HardwareMonitor>, shutdown: CancellationToken) {
        let mut reported = None;
        loop {
            self.heartbeat.beat();
            let read = Arc::clone(&monitor);
            let Ok(hardware) = tokio::task::spawn_blocking(move || read.snapshot()).await else {
                return; // the tokio runtime is shutting down
            };
            let unsupported_fields = *self.unsupported_fields.borrow_and_update();
            let form = *self.form.borrow_and_update();
            let daemon = self.daemon.borrow_and_update().clone();
            self.publish(&hardware, form, unsupported_fields, &daemon);
            self.metrics.gpus(&monitor.gpus());
            let state = self
                .placements
                .describe(&hardware, form, unsupported_fields);
            let is_read = hardware.state != NodeFabricState::NotReadYet;
            if is_read && reported.as_ref() != Some(&state) {
                self.report(&hardware, &state);
                reported = Some(state);
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = monitor.changed() => {}
                // The sender lives as long as the program.
                Ok(()) = self.unsupported_fields.changed() => {}
                Ok(()) = self.form.changed() => {}
                // Never changes in the host-managed mode.
                Ok(()) = self.daemon.changed() => {}
            }
        }
    }

    fn publish(
        &self,
        hardware: &Hardware,
        form: DeviceForm,
        unsupported_fields: UnsupportedFields,
        daemon: &PublishedDaemon,
    ) {
        set(&self.fabric_ready, hardware.check_fabric());
        set(&self.major_ready, hardware.check_major());
        self.desired.send_if_modified(|desired| {
            let mut wanted = self
                .placements
                .desired_slice(hardware, form, unsupported_fields);
            add_daemon(&mut wanted, daemon, hardware);
            replace(desired, wanted)
        });
        let health = vec![channel_health(&self.pool, hardware)];
        self.health
            .send_if_modified(|before| replace(before, health));
    }

    /// One event about the node per change; the conditions log the rest.
    fn report(&self, hardware: &Hardware, state: &str) {
        let policy = hardware.policy();
        if policy.ready {
            let fabric = &hardware.fabric;
            tracing::info!(%fabric, code = fabric.code(), "identified fabric clique");
        }
        let report = |reason| self.events.normal(&self.node, reason, "Probe", state);
        let warn = |reason| self.events.warning(&self.node, reason, "Probe", state);
        match policy.prepare {
            PrepareAnswer::Prepared if self.placements.missing_channels(hardware).is_some() => {
                warn("IMEXChannelsMissing");
            }
            PrepareAnswer::Prepared => report("IMEXChannelReady"),
            PrepareAnswer::PreparedWithWarning => warn("FabricDegraded"),
            // Normal on a host outside a multi-node fabric.
            PrepareAnswer::NoClique if policy.ready => report("NoClique"),
            PrepareAnswer::NoClique | PrepareAnswer::FabricNotReady | PrepareAnswer::NoMajor => {
                warn("IMEXChannelNotReady");
            }
        }
    }
}

fn set(condition: &ReadinessCondition, state: Result<(), String>) {
    match state {
        Ok(()) => condition.set_met(),
        Err(reason) => condition.set_unmet(&reason),
    }
}

fn replace<T: PartialEq>(slot: &mut T, value: T) -> bool {
    let changed = *slot != value;
    *slot = value;
    changed
}
