//! Publishes what is known of the node's GPUs: in the slice for the scheduler, as device health for kubelet, as
//! condition, events and metrics for administrators.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::{Events, Heartbeat, ReadinessCondition};
use dra_checkpoint::View;
use dra_kubelet::{DesiredPool, DeviceHealth, Health};
use gpu_api::ConsumableShares;
use gpu_api::names::{GPU_LOST_TAINT, NO_DRIVER_TAINT, RENAMED_TAINT};
use gpu_node::{GpuGroup, held_names};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::resource::v1::DeviceTaint;
use plugin_parts::UnsupportedFields;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::gpu_devices::SharedClaims;
use crate::health::{Effect, Fault, HealthReport};
use crate::metrics::GpuMetrics;
use crate::node_gpus::{DeviceState, KnownDevice, NodeGpus};
use crate::slice_device::{slice_device, taint};

/// Pause between two comparisons of the names of devices with those in the records.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// Pause between two changes of what is published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// The task that publishes.
pub(crate) struct Publisher {
    pub(crate) pool: String,
    pub(crate) shares: ConsumableShares,
    pub(crate) gpus: watch::Receiver<NodeGpus>,
    /// The faults of the GPUs; `None` until they are known.
    pub(crate) faults: watch::Receiver<Option<Arc<HealthReport>>>,
    pub(crate) shared_claims: SharedClaims,
    /// Fields that the API server has dropped.
    pub(crate) unsupported_fields: watch::Receiver<UnsupportedFields>,
    pub(crate) desired: watch::Sender<DesiredPool>,
    pub(crate) health: watch::Sender<Vec<DeviceHealth>>,
    pub(crate) ready: ReadinessCondition,
    pub(crate) metrics: GpuMetrics,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
    pub(crate) heartbeat: Heartbeat,
}

// === impl Publisher ===

impl Publisher {
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut reported = None;
        let mut published_at: Option<Instant> = None;
        loop {
            self.heartbeat.beat();
            let mut next = Instant::now() + COMPARE_EVERY;
            let may_publish = published_at.map(|it| it + PUBLISH_EVERY);
            match may_publish.filter(|it| *it > Instant::now()) {
                Some(wait) => next = next.min(wait),
                None => {
                    if self.publish(&mut reported) {
                        published_at = Some(Instant::now());
                    }
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

    /// Publishes what is known now. Returns whether the slice or the health of a device is another one.
    // req: GPU-51
    fn publish(&mut self, reported: &mut Option<String>) -> bool {
        let faults = self.faults.borrow_and_update().clone();
        let mut gpus = self.gpus.borrow_and_update().clone();
        // Without its taints, the scheduler would give a device to claims.
        gpus.is_read &= faults.is_some();
        let faults = faults.unwrap_or_default();
        let unsupported = *self.unsupported_fields.borrow_and_update();
        let renamed = match self.shared_claims.get() {
            Ok(claims) => renamed(&gpus, &claims.view()),
            Err(_) => BTreeSet::new(),
        };
        let pool = desired_pool(&gpus, &faults, &renamed, unsupported.taints, self.shares);
        self.metrics.devices(&gpus);
        self.metrics.taints(&pool);
        let health = health(&self.pool, &gpus, &faults);
        let is_new_pool = self.desired.send_if_modified(|it| replace(it, pool));
        let is_new_health = self.health.send_if_modified(|it| replace(it, health));
        match (&gpus.no_driver, gpus.is_read) {
            (Some(reason), _) => self.ready.set_unmet(reason),
            (None, true) => self.ready.set_met(),
            (None, false) => {}
        }
        let lacks_shares = unsupported.sharing && self.shares != ConsumableShares::Disabled;
        let state = describe(&gpus, &faults, &renamed, lacks_shares);
        if gpus.is_read && reported.as_ref() != Some(&state) {
            let is_problem = gpus.has_problem()
                || !unhealthy(&gpus, &faults).is_empty()
                || !renamed.is_empty()
                || lacks_shares;
            self.report(is_problem, &state);
            *reported = Some(state);
        }
        is_new_pool || is_new_health
    }

    /// One event about the node per change.
    fn report(&self, is_problem: bool, state: &str) {
        info!(state, "GPUs of this node");
        if is_problem {
            self.events
                .warning(&self.node, "GPUProblem", "Probe", state);
        } else {
            self.events.normal(&self.node, "GPUsReady", "Probe", state);
        }
    }
}

/// The state in one line. `lacks_shares`: devices are to be shared, and the API server does not store that.
// req: GPU-55
fn describe(
    gpus: &NodeGpus,
    faults: &HealthReport,
    renamed: &BTreeSet<String>,
    lacks_shares: bool,
) -> String {
    let mut text = gpus.describe();
    let unhealthy = unhealthy(gpus, faults);
    if !unhealthy.is_empty() {
        text.push_str("; unhealthy: ");
        text.push_str(&unhealthy.join(", "));
    }
    if !renamed.is_empty() {
        let names: Vec<_> = renamed.iter().map(String::as_str).collect();
        text.push_str("; a claim holds a GPU that has another name now: ");
        text.push_str(&names.join(", "));
    }
    if lacks_shares {
        text.push_str("; only one claim at a time can have a device, because the API server drops allowMultipleAllocations (feature gate DRAConsumableCapacity)");
    }
    text
}

/// The devices with faults that keep claims away, each with its reason.
fn unhealthy(gpus: &NodeGpus, faults: &HealthReport) -> Vec<String> {
    let devices = gpus.devices.iter().filter_map(|known| {
        let worst = worst(known, faults)?;
        Some(format!("{} ({})", known.device.name, worst.message))
    });
    devices.collect()
}

/// The fault that keeps claims away from the device.
fn worst<'a>(known: &KnownDevice, faults: &'a HealthReport) -> Option<&'a Fault> {
    let faults = faults.faults(known.gpu_uuid(), known.instance);
    faults
        .into_iter()
        .find(|it| it.effect == Effect::NoSchedule)
}

/// The names of devices whose hardware a claim holds under another name, with that other name.
// req: GPU-41
fn renamed(gpus: &NodeGpus, records: &View<GpuGroup>) -> BTreeSet<String> {
    let held = held_names(records);
    let mut names = BTreeSet::new();
    for known in &gpus.devices {
        let uuid = known.uuid().unwrap_or_default();
        for (_, held_as) in held.iter().filter(|(it, _)| it == uuid) {
            if *held_as != known.device.name {
                names.insert(held_as.clone());
                names.insert(known.device.name.clone());
            }
        }
    }
    names
}

/// The desired content of the node's slices.
// req: GPU-39, GPU-40, GPU-41
fn desired_pool(
    gpus: &NodeGpus,
    faults: &HealthReport,
    renamed: &BTreeSet<String>,
    drops_taints: bool,
    shares: ConsumableShares,
) -> DesiredPool {
    if !gpus.is_read {
        return DesiredPool::Undecided;
    }
    if gpus.no_driver.is_some() && gpus.devices.is_empty() {
        return DesiredPool::Withdrawn;
    }
    let devices = gpus.devices.iter().filter_map(|known| {
        let taints = taints(known, faults, renamed);
        let informs = |it: &DeviceTaint| it.effect == Effect::None.as_str();
        // Without its taint, the scheduler would give the device to claims.
        (!drops_taints || taints.iter().all(informs))
            .then(|| slice_device(&known.device, taints, shares))
    });
    DesiredPool::Devices(devices.collect())
}

fn taints(
    known: &KnownDevice,
    faults: &HealthReport,
    renamed: &BTreeSet<String>,
) -> Vec<DeviceTaint> {
    let of_state = match known.state {
        DeviceState::Present => None,
        DeviceState::Lost => Some(GPU_LOST_TAINT),
        DeviceState::NoDriver => Some(NO_DRIVER_TAINT),
    };
    let of_name = renamed
        .contains(&known.device.name)
        .then_some(RENAMED_TAINT);
    let keys = of_state.into_iter().chain(of_name);
    let keys = keys.map(|key| taint(key, None, Effect::NoSchedule));
    let faults = faults.faults(known.gpu_uuid(), known.instance).into_iter();
    keys.chain(faults.map(|it| taint(it.key, it.value.clone(), it.effect)))
        .collect()
}

// req: GPU-45
fn health(pool: &str, gpus: &NodeGpus, faults: &HealthReport) -> Vec<DeviceHealth> {
    let devices = gpus.devices.iter();
    devices
        .map(|known| {
            let (health, message) = match known.state {
                DeviceState::Present => match worst(known, faults) {
                    None => (Health::Healthy, String::new()),
                    Some(fault) => (Health::Unhealthy, fault.message.clone()),
                },
                DeviceState::Lost => (
                    Health::Unhealthy,
                    "the driver does not answer for this GPU any more".to_owned(),
                ),
                DeviceState::NoDriver => (
                    Health::Unhealthy,
                    gpus.no_driver.clone().unwrap_or_default(),
                ),
            };
            DeviceHealth {
                pool: pool.to_owned(),
                device: known.device.name.clone(),
                health,
                message,
            }
        })
        .collect()
}

fn replace<T: PartialEq>(slot: &mut T, value: T) -> bool {
    let changed = *slot != value;
    *slot = value;
    changed
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
