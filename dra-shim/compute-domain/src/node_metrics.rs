//! The plugin's metrics besides those of every plugin ([`plugin_parts::Metrics`]).

use std::path::Path;
use std::sync::Arc;

use daemon_runtime::Events;
use nvml_clique::{Gpu, GpuFabricState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::channel_devices::ChannelDevices;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GpuState {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Guarded {
    moment: &'static str,
    outcome: &'static str,
}

/// The metrics of fabric and NRI guard. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeMetrics {
    gpus: Family<GpuState, Gauge>,
    nri_connected: Gauge,
    guarded: Family<Guarded, Counter>,
}

/// Registers all metrics except those of conditions, which `HttpServer::serve` adds.
pub(crate) fn register_metrics(
    node_name: &str,
    data_dir: &Path,
    events: &Events,
) -> (Registry, Arc<plugin_parts::Metrics>, NodeMetrics) {
    let (mut registry, metrics) =
        plugin_parts::register_metrics::<ChannelDevices>(node_name, data_dir, events);
    let node_metrics = NodeMetrics::register(&mut registry);
    (registry, metrics, node_metrics)
}

// === impl NodeMetrics ===

impl NodeMetrics {
    // req: NODE-38
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let own = registry.sub_registry_with_prefix("imex_dra");
        own.register(
            "gpus",
            "GPUs of this node, by the last fabric state that NVML reported; the state vanished means that the GPU has left its clique",
            metrics.gpus.clone(),
        );
        own.register(
            "nri_connected",
            "Whether the NRI guard is registered with the container runtime: 1 or 0; also 0 if the guard is off",
            metrics.nri_connected.clone(),
        );
        // The library appends `_total` to counters.
        own.register(
            "guarded_containers",
            "Containers that the NRI guard checked, by moment of the check and by outcome",
            metrics.guarded.clone(),
        );
        metrics
    }

    /// Sets the number of GPUs for every state, including 0.
    pub(crate) fn gpus(&self, gpus: &[Gpu]) {
        for state in GpuFabricState::CODES {
            let count = gpus.iter().filter(|gpu| gpu.fabric.code() == state).count();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.gpus.get_or_create(&GpuState { state }).set(count);
        }
    }

    pub(crate) fn nri_connected(&self, is_connected: bool) {
        self.nri_connected.set(i64::from(is_connected));
    }

    pub(crate) fn guarded(&self, moment: &'static str, outcome: &'static str) {
        let guarded = Guarded { moment, outcome };
        self.guarded.get_or_create(&guarded).inc();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use daemon_runtime::metrics_table_differences;
    use kube::Client;
    use nvml_clique::GpuRef;

    use super::*;

    // req: NODE-38
    #[test]
    fn every_fabric_state_has_its_number_of_gpus_and_0_once_none_has_it() {
        let mut registry = Registry::default();
        let metrics = NodeMetrics::register(&mut registry);
        let gpu = |index, fabric| Gpu {
            id: GpuRef { index, uuid: None },
            name: None,
            fabric,
            health: None,
        };
        metrics.gpus(&[gpu(0, GpuFabricState::NotStarted)]);
        metrics.gpus(&[
            gpu(0, GpuFabricState::InProgress),
            gpu(1, GpuFabricState::InProgress),
        ]);
        metrics.nri_connected(true);
        metrics.guarded("create", "told");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"imex_dra_gpus{state="in-progress"} 2"#,
            r#"imex_dra_gpus{state="not-started"} 0"#,
            "imex_dra_nri_connected 1",
            r#"imex_dra_guarded_containers_total{moment="create",outcome="told"} 1"#,
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nis not in\n{text}"
            );
        }
    }

    #[tokio::test]
    async fn the_page_has_every_metric_and_no_other() {
        let server = tower::service_fn(|_| async {
            let answer = http::Response::builder().status(404);
            answer.body(kube::client::Body::empty())
        });
        let events = Events::new(Client::new(server, "default"), "test", "node-a");
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(dra_checkpoint::CHECKPOINT_FILE), "{}").unwrap();
        let (registry, metrics, node_metrics) =
            register_metrics("node-a", directory.path(), &events);
        metrics.add_series();
        add_series(&node_metrics);
        let page = include_str!("../../../docs/reference/plugin-metrics.md");
        let differences = metrics_table_differences(registry, page);
        assert_eq!(differences, Vec::<String>::new());
        let gpus = page.lines().find(|it| it.contains("imex_dra_gpus{"));
        for state in GpuFabricState::CODES {
            assert!(gpus.unwrap().contains(&format!("`{state}`")), "{state}");
        }
    }

    /// A family is served once it has a series. No `..` in the pattern: new families must be added here.
    fn add_series(metrics: &NodeMetrics) {
        let NodeMetrics {
            gpus,
            nri_connected: _,
            guarded,
        } = metrics;
        let (moment, outcome) = ("any", "any");
        drop(gpus.get_or_create(&GpuState { state: "any" }));
        drop(guarded.get_or_create(&Guarded { moment, outcome }));
    }
}
