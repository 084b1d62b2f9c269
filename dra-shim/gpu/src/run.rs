//! Builds the plugin's parts and runs them until a signal.

use std::sync::Arc;

use daemon_runtime::{Events, Liveness, Readiness, StartError, signals};
use dra_kubelet::{DesiredPool, DeviceHealth};
use gpu_api::{FeatureGates, Gate};
use gpu_node::JOURNALS;
use nvml_session::DriverRoot;
use plugin_parts::{
    ClaimStatusWriter, InFlight, KubeletParts, Parts, READS_LIMIT, ReportedHolders,
    UnsupportedFields, WRITES_LIMIT, dump_on_signal, register_metrics, serve_http,
};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::args::{Args, Paths};
use crate::device_plugin::DevicePluginSockets;
use crate::driver::GpuDriver;
use crate::effects_keeper::EffectsKeeper;
use crate::gpu_devices::{GpuDevices, SharedClaims};
use crate::health::HealthReport;
use crate::health_monitor::HealthMonitor;
use crate::metrics::GpuMetrics;
use crate::monitor::GpuMonitor;
use crate::node_gpus::NodeGpus;
use crate::node_state::PublishSettings;
use crate::nvidia_smi::NvidiaSmi;
use crate::publish::Publisher;

const PROGRAM: &str = "gpu-kubelet-plugin";

/// The field manager of claims' status.
const CLAIM_REPORTER: &str = "gpu.nvidia.com";

/// Feature gates of GPUs that the Go driver has and this one does not.
const WITHOUT_EFFECT: [Gate; 5] = [
    Gate::DRAListTypeAttributes,
    Gate::DeviceMetadata,
    Gate::DynamicMIG,
    Gate::FabricManagerPartitioning,
    Gate::PassthroughSupport,
];

/// How to remove the most likely second plugin.
const SECOND_PLUGIN_HINT: &str = "disable the Go driver's plugin with resources.gpus.enabled=false";

/// Runs the plugin until a signal ends it.
///
/// # Errors
/// Only what the administrator must fix: see [`StartError`].
pub(crate) async fn run(args: Args) -> Result<(), StartError> {
    let Args {
        node_name,
        paths,
        healthcheck_port,
        settings,
        health,
        kube,
        http,
        log,
    } = args;
    log.install()?;
    let (gates, settings) = settings.resolve()?;
    let paths = paths.resolve();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = node_name,
        ?paths,
        ?gates,
        ?settings,
        "{PROGRAM} starts"
    );
    warn_of_gates(&gates);
    let shutdown = signals::shutdown()?;
    let (readiness, liveness) = (Readiness::default(), Liveness::default());
    // A start condition: an outage of the API server must not make the pods of all nodes unready.
    let api_server =
        readiness.add_start_condition("api-server", "the API server has not responded yet");
    let monitor = GpuMonitor::new(&paths);
    let reading = monitor
        .clone()
        .run(liveness.add("gpu-monitor", READS_LIMIT), shutdown.clone());
    let reading = tokio::spawn(reading);
    let client = kube.client(&api_server).await?;
    let events = Events::new(client.clone(), PROGRAM, &node_name);
    let (mut registry, metrics) =
        register_metrics::<GpuDevices>(&node_name, &paths.data_dir, &events);
    let gpu_metrics = GpuMetrics::register(&mut registry);
    let health_settings = health.resolve();
    let health = (&readiness, &liveness);
    serve_http(&http, healthcheck_port, health, registry, &shutdown).await?;
    let checks = gates.enabled(Gate::NVMLDeviceHealthCheck).then(|| {
        HealthMonitor::new(
            &monitor,
            &paths.data_dir,
            health_settings,
            &gpu_metrics,
            &liveness,
        )
    });
    let faults = faults(checks.as_ref());
    let in_flight = InFlight::default();
    dump_on_signal(in_flight.clone(), shutdown.clone())?;

    let parts = Parts {
        registry_dir: paths.registry_dir.clone(),
        data_dir: paths.data_dir.clone(),
        cdi_root: paths.cdi_root.clone(),
        devices: Arc::new(devices(&node_name, gates, &monitor, &paths)),
        shared_claims: SharedClaims::default(),
        holders: ReportedHolders::default(),
        claim_status: ClaimStatusWriter::new(client.clone(), CLAIM_REPORTER, Arc::clone(&metrics)),
        node_name,
        client,
        readiness,
        api_server,
        liveness,
        events,
        metrics,
        in_flight,
    };
    let (desired, desired_pool) = watch::channel(DesiredPool::Undecided);
    let (health, device_health) = watch::channel(Vec::new());
    let (unsupported_fields, seen_to_drop) = watch::channel(UnsupportedFields::default());
    let keeper = keeper(&parts, &monitor, gpu_metrics.clone());
    let keeping = tokio::spawn(keeper.run(shutdown.clone()));
    let publisher = publisher(
        &parts,
        settings,
        (monitor.subscribe(), faults, seen_to_drop),
        (desired, health),
        gpu_metrics,
    );
    let publishing = tokio::spawn(publisher.run(shutdown.clone()));
    let checking = checks.map(|it| tokio::spawn(it.run(shutdown.clone())));
    let tasks = parts.start(Vec::new(), &shutdown);
    let kubelet = KubeletParts {
        driver: driver(&parts, monitor),
        desired: desired_pool,
        health: device_health,
        unsupported_fields,
        second_plugin_hint: SECOND_PLUGIN_HINT,
    };
    let ended = parts.serve_kubelet(kubelet, &shutdown).await;
    shutdown.cancel();
    let tasks = tasks.into_iter().chain([keeping, publishing, reading]);
    for task in tasks.chain(checking) {
        // Tasks end at their next await. The panic hook has logged a panic.
        let _ = task.await;
    }
    info!("shutdown");
    ended
}

fn devices(node: &str, gates: FeatureGates, monitor: &GpuMonitor, paths: &Paths) -> GpuDevices {
    GpuDevices {
        node: node.to_owned(),
        gates,
        monitor: monitor.clone(),
        effects_dir: paths.data_dir.join(JOURNALS),
        hardware: Arc::new(NvidiaSmi {
            driver_root: DriverRoot::new(paths.driver_root.clone()),
        }),
    }
}

fn keeper(parts: &Parts<GpuDevices>, monitor: &GpuMonitor, metrics: GpuMetrics) -> EffectsKeeper {
    EffectsKeeper {
        shared_claims: parts.shared_claims.clone(),
        gpus: monitor.subscribe(),
        metrics,
        events: parts.events.clone(),
        node: parts.node_reference(),
        heartbeat: parts.liveness.add("effects-keeper", WRITES_LIMIT),
    }
}

fn warn_of_gates(gates: &FeatureGates) {
    for gate in WITHOUT_EFFECT.into_iter().filter(|it| gates.enabled(*it)) {
        warn!(%gate, "this version does not support what the feature gate enables; it has no effect");
    }
}

/// The faults of GPUs. Without health checks there are none.
fn faults(checks: Option<&HealthMonitor>) -> watch::Receiver<Option<Arc<HealthReport>>> {
    match checks {
        Some(checks) => checks.reports(),
        None => watch::channel(Some(Arc::default())).1,
    }
}

fn publisher(
    parts: &Parts<GpuDevices>,
    settings: PublishSettings,
    (gpus, faults, unsupported_fields): (
        watch::Receiver<NodeGpus>,
        watch::Receiver<Option<Arc<HealthReport>>>,
        watch::Receiver<UnsupportedFields>,
    ),
    (desired, health): (watch::Sender<DesiredPool>, watch::Sender<Vec<DeviceHealth>>),
    metrics: GpuMetrics,
) -> Publisher {
    let condition = |name, reason| parts.readiness.add_condition(name, reason);
    Publisher {
        pool: parts.node_name.clone(),
        settings,
        gpus,
        faults,
        shared_claims: parts.shared_claims.clone(),
        unsupported_fields,
        device_plugin: DevicePluginSockets::default(),
        desired,
        health,
        ready: condition("gpus", "the GPUs have not been read yet"),
        metrics,
        events: parts.events.clone(),
        node: parts.node_reference(),
        heartbeat: parts.liveness.add("gpu-publisher", READS_LIMIT),
    }
}

fn driver(parts: &Parts<GpuDevices>, monitor: GpuMonitor) -> GpuDriver {
    GpuDriver {
        shared_claims: parts.shared_claims.clone(),
        monitor,
        holders: parts.holders.clone(),
        metrics: Arc::clone(&parts.metrics),
        in_flight: parts.in_flight.clone(),
        cdi_root: parts.cdi_root.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_notes_list_the_same_gates() {
        let helpers = include_str!("../../../deployments/helm/imex-dra/templates/_helpers.tpl");
        let (_, list) = helpers
            .split_once("imex-dra.gpuGatesWithoutEffect")
            .unwrap();
        let (list, _) = list.split_once(']').unwrap();
        let (_, names) = list.split_once('[').unwrap();
        let names: Vec<&str> = names.split(", ").collect();
        assert_eq!(WITHOUT_EFFECT.map(Gate::name).as_slice(), names);
    }
}
