//! The plugin's metrics besides those of every plugin ([`plugin_parts::Metrics`]).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::node_gpus::{DeviceState, NodeGpus};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Devices {
    device_type: &'static str,
    state: &'static str,
}

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
            "Claims whose GPUs cannot be changed as they want it, or not be restored after they have ended",
            metrics.not_restored.clone(),
        );
        metrics
    }

    /// Sets the number of claims whose changes fail.
    pub(crate) fn not_restored(&self, claims: usize) {
        self.not_restored
            .set(i64::try_from(claims).unwrap_or(i64::MAX));
    }

    /// Sets the number of devices for every type and state, including 0.
    pub(crate) fn devices(&self, gpus: &NodeGpus) {
        for device_type in TYPES {
            for (in_state, state) in STATES {
                let devices = gpus.devices.iter();
                let devices =
                    devices.filter(|it| it.state == in_state && it.device_type() == device_type);
                let count = i64::try_from(devices.count()).unwrap_or(i64::MAX);
                let labels = Devices { device_type, state };
                self.devices.get_or_create(&labels).set(count);
            }
        }
        let skipped = i64::try_from(gpus.skipped.len()).unwrap_or(i64::MAX);
        self.skipped.set(skipped);
    }
}

#[cfg(test)]
mod tests {
    use daemon_runtime::metrics_table_differences;

    use super::*;

    #[test]
    fn the_page_has_every_metric_and_no_other() {
        let mut registry = Registry::default();
        GpuMetrics::register(&mut registry).devices(&NodeGpus::default());
        let page = include_str!("../../../docs/reference/gpu-plugin-metrics.md");
        let differences = metrics_table_differences(registry, page);
        assert_eq!(differences, Vec::<String>::new());
        for (_, state) in STATES {
            assert!(page.contains(&format!("`{state}`")), "{state}");
        }
    }
}
