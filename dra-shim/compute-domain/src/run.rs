//! Builds the plugin's parts and runs them until a signal.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::driver_managed::SOCKET_FILE;
use compute_domain_api::{Mode, Settings};
use compute_domain_node::{HolderPolicy, ImexDaemon};
use daemon_runtime::{
    Events, HttpArgs, HttpServer, Liveness, Readiness, ReadinessCondition, StartError,
    log_settings, signals,
};
use dra_checkpoint::BootId;
use dra_kubelet::{DesiredPool, DeviceHealth};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use nvml_clique::{DriverRoot, HostImex};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::advertise::Advertiser;
use crate::args::{Args, NriArgs, Paths};
use crate::checkpoint::CheckpointTask;
use crate::checkpoint_gauges;
use crate::claim_lookup::ClaimLookup;
use crate::claim_status::ClaimStatusWriter;
use crate::device::Placements;
use crate::device_form::{DeviceForm, DeviceFormTask};
use crate::domain_lookup::DomainLookup;
use crate::driver::ComputeDomainDriver;
use crate::host_imex::HostImexGate;
use crate::imex_daemon::{DaemonTask, DaemonWatch, PublishedDaemon};
use crate::in_flight::{InFlight, dump_on_signal};
use crate::kubelet::{KubeletConditions, KubeletServer, NOT_REGISTERED};
use crate::metrics::Metrics;
use crate::monitor::HardwareMonitor;
use crate::nri_guard::{self, Connection, HostDevices, NriGuard, PodClaims, Reports};
use crate::pod_lookup::PodLookup;
use crate::reconciler::Reconciler;
use crate::removed_mounts::RemovedMounts;
use crate::reported_holders::ReportedHolders;
use crate::second_plugin::SecondPluginAlarm;
use crate::shared_claims::SharedClaims;
use crate::spec_keeper::SpecKeeper;
use crate::unsupported_fields::UnsupportedFields;
use crate::writer_watch::WriterWatch;

const PROGRAM: &str = "compute-domain-kubelet-plugin";

/// Heartbeat limit of tasks that read many claims from the API server, one after the other.
const REQUESTS_LIMIT: Duration = Duration::from_secs(600);
/// Heartbeat limit of tasks that write the checkpoint twice: a commit waits for 30 s at most.
const WRITES_LIMIT: Duration = Duration::from_secs(180);
/// Heartbeat limit of tasks that read small files.
const READS_LIMIT: Duration = Duration::from_secs(120);

/// Common inputs of the parts.
struct Parts {
    node_name: String,
    paths: Paths,
    settings: Settings,
    client: Client,
    readiness: Readiness,
    api_server: ReadinessCondition,
    liveness: Liveness,
    events: Events,
    metrics: Arc<Metrics>,
    in_flight: InFlight,
    hardware: Arc<HardwareMonitor>,
    shared_claims: SharedClaims,
    /// Only in the driver-managed mode.
    imex_daemon: Option<ImexDaemon>,
    holders: ReportedHolders,
    claim_status: ClaimStatusWriter,
}

/// Runs the plugin until a signal ends it.
///
/// # Errors
/// Only what the administrator must fix: see [`StartError`].
// req: MODE-9
pub(crate) async fn run(args: Args) -> Result<(), StartError> {
    let Args {
        node_name,
        paths,
        healthcheck_port,
        imex,
        nri,
        kube,
        http,
        log,
    } = args;
    log.install()?;
    let settings = imex.resolve()?;
    let paths = paths.resolve();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = node_name,
        ?paths,
        "{PROGRAM} starts"
    );
    log_settings(&settings);
    let shutdown = signals::shutdown()?;
    let (readiness, liveness) = (Readiness::default(), Liveness::default());
    // A start condition: an outage of the API server must not make the pods of all nodes unready.
    let api_server =
        readiness.add_start_condition("api-server", "the API server has not responded yet");
    let client = kube.client(&api_server).await?;
    let events = Events::new(client.clone(), PROGRAM, &node_name);
    let (registry, metrics) = register_metrics(&node_name, &paths.data_dir, &events);
    let health = (&readiness, &liveness);
    serve_http(&http, healthcheck_port, health, registry, &shutdown).await?;

    let in_flight = InFlight::default();
    dump_on_signal(in_flight.clone(), shutdown.clone())?;

    let parts = Parts {
        in_flight,
        events,
        hardware: Arc::new(HardwareMonitor::start(
            paths.driver_root.clone(),
            paths.proc_devices.clone(),
        )?),
        shared_claims: SharedClaims::new(),
        imex_daemon: imex_daemon(settings.mode, &paths)?,
        holders: ReportedHolders::default(),
        claim_status: ClaimStatusWriter::new(client.clone(), Arc::clone(&metrics)),
        node_name,
        paths,
        settings,
        client,
        readiness,
        api_server,
        liveness,
        metrics,
    };
    let (desired, desired_slice) = watch::channel(DesiredPool::Undecided);
    let (health, device_health) = watch::channel(Vec::new());
    let (unsupported_fields, seen_to_drop) = watch::channel(UnsupportedFields::default());
    let (form, device_form) = watch::channel(DeviceForm::Undecided);
    let published = PublishedDaemon::at_start(parts.imex_daemon.as_ref());
    let (published, daemon) = watch::channel(published);
    let tasks = [
        tokio::spawn(parts.spec_keeper().run(shutdown.clone())),
        tokio::spawn(parts.removed_mounts(&nri).run(shutdown.clone())),
        tokio::spawn(parts.writer_watch().run(shutdown.clone())),
        tokio::spawn(parts.checkpoint_task().run(shutdown.clone())),
        tokio::spawn(parts.reconciler().run(shutdown.clone())),
        tokio::spawn(
            parts
                .device_form_task(form, seen_to_drop.clone())
                .run(shutdown.clone()),
        ),
        tokio::spawn(
            parts
                .advertiser(desired, health, (seen_to_drop, device_form, daemon))
                .run(Arc::clone(&parts.hardware), shutdown.clone()),
        ),
    ];
    let daemon_watch = parts.watch_daemon(published, &shutdown);
    let driver = parts.driver(daemon_watch);
    let guard = parts.start_guard(&nri)?;
    let kubelet = parts.kubelet_server(driver, desired_slice, device_health, unsupported_fields);
    let ended = kubelet.serve(&shutdown).await;
    shutdown.cancel();
    if let Some(guard) = guard {
        guard.shutdown().await;
    }
    for task in tasks {
        // Tasks end at their next await. The panic hook has logged a panic.
        let _ = task.await;
    }
    // No more calls: no reports are added.
    parts.claim_status.finish().await;
    info!("shutdown");
    ended
}

/// The node's IMEX daemon, in the driver-managed mode.
fn imex_daemon(mode: Mode, paths: &Paths) -> Result<Option<ImexDaemon>, StartError> {
    if mode == Mode::HostManaged {
        return Ok(None);
    }
    let boot = BootId::current().map_err(|error| StartError::new(&error, error.hint()))?;
    Ok(Some(ImexDaemon::new(&paths.imexd_dir, boot)))
}

/// Registers all metrics except those of conditions, which [`HttpServer::serve`] adds.
pub(crate) fn register_metrics(
    node_name: &str,
    data_dir: &Path,
    events: &Events,
) -> (Registry, Arc<Metrics>) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, node_name);
    checkpoint_gauges::register(&mut registry, data_dir);
    events.register_metrics(&mut registry);
    (registry, metrics)
}

/// Serves health on a separate port for kubelet's probes, and again beside the metrics.
async fn serve_http(
    http: &HttpArgs,
    healthcheck_port: i32,
    (readiness, liveness): (&Readiness, &Liveness),
    registry: Registry,
    shutdown: &CancellationToken,
) -> Result<(), StartError> {
    let serve = |server: HttpServer, registry| {
        let server = server.liveness(liveness.clone());
        tokio::spawn(server.serve(readiness.clone(), registry, shutdown.clone()));
    };
    if healthcheck_port >= 0 {
        let health = HttpArgs {
            http_endpoint: format!(":{healthcheck_port}"),
            metrics_path: String::new(),
        };
        if let Some(server) = health.bind().await? {
            serve(server, Registry::default());
        }
    }
    if let Some(server) = http.bind().await? {
        serve(server, registry);
    }
    Ok(())
}

// === impl Parts ===

impl Parts {
    fn checkpoint_task(&self) -> CheckpointTask {
        CheckpointTask {
            paths: self.paths.clone(),
            holder_policy: HolderPolicy::new(&self.settings),
            daemon: self.imex_daemon.clone(),
            shared_claims: self.shared_claims.clone(),
            heartbeat: self.liveness.add("checkpoint-keeper", REQUESTS_LIMIT),
            hardware: Arc::clone(&self.hardware),
            lookup: self.claim_lookup(),
            ready: self
                .readiness
                .add_condition("checkpoint", "the checkpoint is being opened"),
            metrics: Arc::clone(&self.metrics),
            events: self.events.clone(),
            node: self.node_reference(),
        }
    }

    fn removed_mounts(&self, nri: &NriArgs) -> RemovedMounts {
        let Paths {
            registry_dir,
            data_dir,
            cdi_root,
            ..
        } = &self.paths;
        // This process creates the data directory; its parent is mounted.
        let plugins = data_dir.parent().unwrap_or(data_dir);
        let mut mounts = vec![cdi_root.clone(), registry_dir.clone(), plugins.to_owned()];
        if nri.nri_guard_mode != nri_guard::Mode::Off {
            mounts.extend(nri.nri_guard_cdi_directories.iter().cloned());
        }
        RemovedMounts {
            mounts,
            heartbeat: self.liveness.add("mounts", READS_LIMIT),
        }
    }

    fn reconciler(&self) -> Reconciler {
        Reconciler::new(
            self.shared_claims.clone(),
            self.claim_lookup(),
            PodLookup::new(self.client.clone(), &self.node_name),
            self.holders.clone(),
            self.liveness.add("reconciler", REQUESTS_LIMIT),
        )
    }

    fn device_form_task(
        &self,
        form: watch::Sender<DeviceForm>,
        unsupported_fields: watch::Receiver<UnsupportedFields>,
    ) -> DeviceFormTask {
        DeviceFormTask {
            sharing: self.settings.sharing,
            data_dir: self.paths.data_dir.clone(),
            shared_claims: self.shared_claims.clone(),
            claims: self.claim_lookup(),
            pods: PodLookup::new(self.client.clone(), &self.node_name),
            form,
            unsupported_fields,
            marker_ready: self.readiness.add_condition(
                "device-marker",
                "the plugin does not know yet whether claims shared the device before the plugin started",
            ),
            heartbeat: self.liveness.add("device-form", REQUESTS_LIMIT),
            events: self.events.clone(),
            node: self.node_reference(),
        }
    }

    fn claim_lookup(&self) -> ClaimLookup {
        ClaimLookup::new(self.client.clone(), &self.node_name)
    }

    fn spec_keeper(&self) -> SpecKeeper {
        SpecKeeper {
            cdi_root: self.paths.cdi_root.clone(),
            heartbeat: self.liveness.add("spec-keeper", WRITES_LIMIT),
            shared_claims: self.shared_claims.clone(),
            hardware: Arc::clone(&self.hardware),
        }
    }

    fn writer_watch(&self) -> WriterWatch {
        WriterWatch {
            shared_claims: self.shared_claims.clone(),
            writer: self.liveness.add("checkpoint-writer", 2 * WRITES_LIMIT),
            changeable: self
                .readiness
                .add_condition("checkpoint-lock", "the checkpoint is being opened"),
        }
    }

    fn advertiser(
        &self,
        desired: watch::Sender<DesiredPool>,
        health: watch::Sender<Vec<DeviceHealth>>,
        (unsupported_fields, form, daemon): (
            watch::Receiver<UnsupportedFields>,
            watch::Receiver<DeviceForm>,
            watch::Receiver<PublishedDaemon>,
        ),
    ) -> Advertiser {
        let condition = |name, reason| self.readiness.add_condition(name, reason);
        Advertiser {
            pool: self.node_name.clone(),
            heartbeat: self.liveness.add("advertiser", READS_LIMIT),
            placements: Placements::new(&self.settings),
            unsupported_fields,
            form,
            daemon,
            metrics: Arc::clone(&self.metrics),
            desired,
            health,
            fabric_ready: condition("fabric", "the fabric has not been read yet"),
            major_ready: condition("channel-major", "the channel major has not been read yet"),
            events: self.events.clone(),
            node: self.node_reference(),
        }
    }

    // req: NODE-34
    fn kubelet_server(
        &self,
        driver: ComputeDomainDriver,
        desired: watch::Receiver<DesiredPool>,
        health: watch::Receiver<Vec<DeviceHealth>>,
        unsupported_fields: watch::Sender<UnsupportedFields>,
    ) -> KubeletServer {
        let condition = |name, reason| self.readiness.add_condition(name, reason);
        KubeletServer {
            node_name: self.node_name.clone(),
            paths: self.paths.clone(),
            client: self.client.clone(),
            driver,
            metrics: Arc::clone(&self.metrics),
            in_flight: self.in_flight.clone(),
            events: self.events.clone(),
            desired,
            health,
            second_plugin: SecondPluginAlarm {
                metrics: Arc::clone(&self.metrics),
                events: self.events.clone(),
                node: self.node_reference(),
            },
            publisher: self.liveness.add("publisher", READS_LIMIT),
            conditions: KubeletConditions {
                api_server: self.api_server.clone(),
                registered: condition("kubelet", NOT_REGISTERED),
                published: condition("resource-slice", "the node's devices are not published yet"),
                unsupported_fields,
            },
        }
    }

    /// Starts the NRI guard. `None` if it is off.
    fn start_guard(&self, nri: &NriArgs) -> Result<Option<nri_plugin::Service>, StartError> {
        let mode = nri.nri_guard_mode;
        if mode == nri_guard::Mode::Off {
            return Ok(None);
        }
        let pods = PodLookup::new(self.client.clone(), &self.node_name);
        let guard = NriGuard {
            mode,
            exempt: Arc::new(nri.exempt_namespaces()),
            shared_claims: self.shared_claims.clone(),
            hardware: Arc::clone(&self.hardware),
            pods: PodClaims::new(pods, self.claim_lookup()),
            host_devices: HostDevices::new(nri.nri_guard_cdi_directories.clone()),
            reports: Reports {
                events: self.events.clone(),
                metrics: Arc::clone(&self.metrics),
                own_namespace: nri.namespace.as_str().into(),
            },
            starts_anyway: Arc::default(),
        };
        let service = guard.start(&nri.nri_socket);
        let service = service.map_err(|error| {
            StartError::new(&error, "this is a bug; please report it with this log")
        })?;
        let reason = "not registered with the container runtime yet";
        let ready = || self.readiness.add_condition("nri", reason);
        let connection = Connection {
            metrics: Arc::clone(&self.metrics),
            ready: (mode == nri_guard::Mode::Enforce).then(ready),
        };
        tokio::spawn(connection.follow(service.state()));
        Ok(Some(service))
    }

    /// Watches the node's IMEX daemon, in the driver-managed mode.
    fn watch_daemon(
        &self,
        published: watch::Sender<PublishedDaemon>,
        shutdown: &CancellationToken,
    ) -> Option<DaemonWatch> {
        let watch = DaemonWatch::new(self.imex_daemon.clone()?);
        let task = DaemonTask {
            watch: watch.clone(),
            shared_claims: self.shared_claims.clone(),
            published,
            heartbeat: self.liveness.add("imex-daemon", WRITES_LIMIT),
            events: self.events.clone(),
            node: self.node_reference(),
        };
        tokio::spawn(task.run(shutdown.clone()));
        Some(watch)
    }

    /// The gate that checks `nvidia-imex` before a claim is prepared, if configured.
    fn imex_gate(&self) -> HostImexGate {
        let Paths {
            host_root,
            driver_root,
            imexd_dir,
            ..
        } = &self.paths;
        match self.settings.mode {
            Mode::HostManaged => {
                let socket = self.settings.host_socket_path.clone();
                let root = || DriverRoot::new(host_root.clone());
                HostImexGate::new(socket.map(|socket| HostImex::new(root(), socket)))
            }
            Mode::DriverManaged => {
                let root = DriverRoot::new(driver_root.clone());
                HostImexGate::of_daemon(HostImex::outside(root, imexd_dir.join(SOCKET_FILE)))
            }
        }
    }

    fn driver(&self, imex_daemon: Option<DaemonWatch>) -> ComputeDomainDriver {
        ComputeDomainDriver {
            shared_claims: self.shared_claims.clone(),
            hardware: Arc::clone(&self.hardware),
            domains: DomainLookup::new(self.client.clone(), self.settings.isolation),
            holders: self.holders.clone(),
            imex_daemon,
            host_imex: self.imex_gate(),
            events: self.events.clone(),
            metrics: Arc::clone(&self.metrics),
            in_flight: self.in_flight.clone(),
            node: self.node_name.as_str().into(),
            cdi_root: self.paths.cdi_root.clone(),
            claim_status: self.claim_status.clone(),
        }
    }

    /// The node as in kubelet's own events: with its name as the UID.
    fn node_reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node_name.clone()),
            uid: Some(self.node_name.clone()),
            ..ObjectReference::default()
        }
    }
}
