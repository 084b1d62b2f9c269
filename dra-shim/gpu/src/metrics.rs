//! The plugin's metrics besides those of every plugin ([`plugin_parts::Metrics`]).

use std::collections::BTreeMap;

use dra_kubelet::DesiredPool;
use gpu_api::names::{
    GPU_LOST_TAINT, NO_DRIVER_TAINT, RENAMED_TAINT, UNMONITORED_TAINT, XID_TAINT,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::device_plugin::BesideDevicePlugin;
use crate::health::Effect;
use crate::node_gpus::{DeviceState, NodeGpus};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Devices {
    device_type: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Taints {
    key: &'static str,
    effect: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Beside {
    gpus: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct XidCode {
    code: String,
}

/// The taints that this plugin sets.
const TAINTS: [(&str, Effect); 6] = [
    (XID_TAINT, Effect::NoSchedule),
    (XID_TAINT, Effect::None),
    (GPU_LOST_TAINT, Effect::NoSchedule),
    (UNMONITORED_TAINT, Effect::None),
    (NO_DRIVER_TAINT, Effect::NoSchedule),
    (RENAMED_TAINT, Effect::NoSchedule),
];

/// The largest XID that is counted by its code. NVIDIA's are below.
const LAST_XID: u64 = 255;

const TYPES: [&str; 2] = ["gpu", "mig"];

const STATES: [(DeviceState, &str); 3] = [
    (DeviceState::Present, "present"),
    (DeviceState::Lost, "lost"),
    (DeviceState::NoDriver, "no-driver"),
];

/// The metrics of GPUs. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct GpuMetrics {
    devices: Family<Devices, Gauge>,
    skipped: Gauge,
    not_restored: Gauge,
    held_devices_gone: Gauge,
    device_plugin_sockets: Family<Beside, Gauge>,
    taints: Family<Taints, Gauge>,
    health: HealthMetrics,
}

/// The metrics of health checks. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HealthMetrics {
    xids: Family<XidCode, Counter>,
    failures: Counter,
}

// === impl HealthMetrics ===

impl HealthMetrics {
    pub(crate) fn count_xid(&self, code: u64) {
        let code = match code {
            0..=LAST_XID => code.to_string(),
            _ => "other".to_owned(),
        };
        self.xids.get_or_create(&XidCode { code }).inc();
    }

    #[cfg(test)]
    pub(crate) fn xids(&self, code: u64) -> u64 {
        let code = code.to_string();
        self.xids.get_or_create(&XidCode { code }).get()
    }

    #[cfg(test)]
    pub(crate) fn failures(&self) -> u64 {
        self.failures.get()
    }

    /// The process that waits for XIDs has ended.
    pub(crate) fn count_monitor_failure(&self) {
        self.failures.inc();
    }
}

// === impl GpuMetrics ===

impl GpuMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let own = registry.sub_registry_with_prefix("imex_dra");
        own.register(
            "published_devices",
            "Devices of this node by type and state: present, lost (the driver does not answer for it any more) or no-driver",
            metrics.devices.clone(),
        );
        own.register(
            "unpublished_gpus",
            "GPUs and MIG devices of this node that are not published, because they cannot be identified or read",
            metrics.skipped.clone(),
        );
        own.register(
            "claims_with_failed_gpu_changes",
            "Claims whose time slice cannot be set, or cannot be undone after the claim has ended",
            metrics.not_restored.clone(),
        );
        own.register(
            "held_devices_gone",
            "GPUs and MIG devices that claims hold and the driver does not list any more",
            metrics.held_devices_gone.clone(),
        );
        own.register(
            "device_plugin_sockets",
            "Resources that NVIDIA's device plugin serves on this node, where this plugin's gpus are published or withdrawn",
            metrics.device_plugin_sockets.clone(),
        );
        own.register(
            "device_taints",
            "Taints of published devices by key and effect",
            metrics.taints.clone(),
        );
        own.register(
            "gpu_xids",
            "XIDs that the driver has reported, by code; 0 to 255 or other",
            metrics.health.xids.clone(),
        );
        own.register(
            "health_monitor_failures",
            "Ends of the process that waits for XIDs: NVML has failed, hung or ended it",
            metrics.health.failures.clone(),
        );
        metrics
    }

    /// Sets the number of claims whose changes fail.
    pub(crate) fn not_restored(&self, claims: usize) {
        set(&self.not_restored, claims);
    }

    /// Sets the number of held devices that are gone.
    pub(crate) fn held_devices_gone(&self, devices: usize) {
        set(&self.held_devices_gone, devices);
    }

    /// Sets the number of the device plugin's sockets.
    pub(crate) fn device_plugin(&self, sockets: usize, setting: BesideDevicePlugin) {
        let gpus = match setting {
            BesideDevicePlugin::Report => "published",
            BesideDevicePlugin::Withdraw => "withdrawn",
        };
        let gauge = self.device_plugin_sockets.get_or_create(&Beside { gpus });
        set(&gauge, sockets);
    }

    pub(crate) fn health(&self) -> HealthMetrics {
        self.health.clone()
    }

    /// Sets the number of taints for every key and effect, including 0.
    pub(crate) fn taints(&self, pool: &DesiredPool) {
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        if let DesiredPool::Devices(devices) = pool {
            let taints = devices.iter().flat_map(|it| &it.taints).flatten();
            for taint in taints {
                *counts.entry((&taint.key, &taint.effect)).or_default() += 1;
            }
        }
        for (key, effect) in TAINTS {
            let effect = effect.as_str();
            let count = counts.get(&(key, effect)).copied().unwrap_or(0);
            self.taints
                .get_or_create(&Taints { key, effect })
                .set(count);
        }
    }

    /// Sets the number of devices for every type and state, including 0.
    pub(crate) fn devices(&self, gpus: &NodeGpus) {
        for device_type in TYPES {
            for (in_state, state) in STATES {
                let devices = gpus.devices.iter();
                let devices =
                    devices.filter(|it| it.state == in_state && it.device_type() == device_type);
                let labels = Devices { device_type, state };
                set(&self.devices.get_or_create(&labels), devices.count());
            }
        }
        set(&self.skipped, gpus.skipped.len());
    }
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use daemon_runtime::metrics_table_differences;

    use super::*;

    #[test]
    fn the_page_has_every_metric_and_no_other() {
        let mut registry = Registry::default();
        let metrics = GpuMetrics::register(&mut registry);
        metrics.devices(&NodeGpus::default());
        metrics.taints(&DesiredPool::Undecided);
        metrics.device_plugin(0, BesideDevicePlugin::Report);
        metrics.health().count_xid(79);
        let page = include_str!("../../../docs/reference/gpu-plugin-metrics.md");
        let differences = metrics_table_differences(registry, page);
        assert_eq!(differences, Vec::<String>::new());
        for (_, state) in STATES {
            assert!(page.contains(&format!("`{state}`")), "{state}");
        }
    }
}
