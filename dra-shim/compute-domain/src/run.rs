//! Builds the plugin's parts and runs them until a signal.

use std::path::PathBuf;
use std::sync::Arc;

use compute_domain_api::driver_managed::SOCKET_FILE;
use compute_domain_api::names::CLAIM_REPORTER;
use compute_domain_api::{Mode, Settings};
use compute_domain_node::{HolderPolicy, ImexDaemon};
use daemon_runtime::{Events, Liveness, Readiness, StartError, log_settings, signals};
use dra_checkpoint::BootId;
use dra_kubelet::{DesiredPool, DeviceHealth};
use nvml_clique::{DriverRoot, HostImex};
use plugin_parts::{
    ClaimStatusWriter, InFlight, KubeletParts, READS_LIMIT, REQUESTS_LIMIT, ReportedHolders,
    UnsupportedFields, WRITES_LIMIT, dump_on_signal, serve_http,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::advertise::Advertiser;
use crate::args::{Args, NriArgs, Paths};
use crate::channel_devices::{ChannelDevices, SharedClaims};
use crate::device::Placements;
use crate::device_form::{DeviceForm, DeviceFormTask};
use crate::domain_lookup::DomainLookup;
use crate::driver::ComputeDomainDriver;
use crate::host_imex::HostImexGate;
use crate::imex_daemon::{DaemonTask, DaemonWatch, PublishedDaemon};
use crate::monitor::HardwareMonitor;
use crate::node_device::NodeDeviceLookup;
use crate::node_metrics::{NodeMetrics, register_metrics};
use crate::nri_guard::{self, Connection, HostDevices, NriGuard, PodClaims, Reports};

const PROGRAM: &str = "compute-domain-kubelet-plugin";

/// How to remove the most likely second plugin.
const SECOND_PLUGIN_HINT: &str =
    "disable the Go driver's plugin with resources.computeDomains.enabled=false";

/// Common inputs of the parts.
struct Parts {
    common: plugin_parts::Parts<ChannelDevices>,
    paths: Paths,
    settings: Settings,
    node_metrics: NodeMetrics,
    hardware: Arc<HardwareMonitor>,
    /// Only in the driver-managed mode.
    imex_daemon: Option<ImexDaemon>,
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
    let (registry, metrics, node_metrics) = register_metrics(&node_name, &paths.data_dir, &events);
    let health = (&readiness, &liveness);
    serve_http(&http, healthcheck_port, health, registry, &shutdown).await?;

    let in_flight = InFlight::default();
    dump_on_signal(in_flight.clone(), shutdown.clone())?;

    let hardware = Arc::new(HardwareMonitor::start(
        paths.driver_root.clone(),
        paths.proc_devices.clone(),
    )?);
    let imex_daemon = imex_daemon(settings.mode, &paths)?;
    let common = plugin_parts::Parts {
        registry_dir: paths.registry_dir.clone(),
        data_dir: paths.data_dir.clone(),
        cdi_root: paths.cdi_root.clone(),
        devices: Arc::new(ChannelDevices {
            holder_policy: HolderPolicy::new(&settings),
            daemon: imex_daemon.clone(),
            hardware: Arc::clone(&hardware),
        }),
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
    let parts = Parts {
        common,
        paths,
        settings,
        node_metrics,
        hardware,
        imex_daemon,
    };
    parts.run(&nri, &shutdown).await
}

/// The node's IMEX daemon, in the driver-managed mode.
fn imex_daemon(mode: Mode, paths: &Paths) -> Result<Option<ImexDaemon>, StartError> {
    if mode == Mode::HostManaged {
        return Ok(None);
    }
    let boot = BootId::current().map_err(|error| StartError::new(&error, error.hint()))?;
    Ok(Some(ImexDaemon::new(&paths.imexd_dir, boot)))
}

/// The mounted directories that only the NRI guard reads.
fn nri_mounts(nri: &NriArgs) -> Vec<PathBuf> {
    match nri.nri_guard_mode {
        nri_guard::Mode::Off => Vec::new(),
        _ => nri.nri_guard_cdi_directories.clone(),
    }
}

// === impl Parts ===

impl Parts {
    /// Starts all tasks, and serves kubelet until `shutdown`.
    async fn run(self, nri: &NriArgs, shutdown: &CancellationToken) -> Result<(), StartError> {
        let (desired, desired_slice) = watch::channel(DesiredPool::Undecided);
        let (health, device_health) = watch::channel(Vec::new());
        let (unsupported_fields, seen_to_drop) = watch::channel(UnsupportedFields::default());
        let (form, device_form) = watch::channel(DeviceForm::Undecided);
        let published = PublishedDaemon::at_start(self.imex_daemon.as_ref());
        let (published, daemon) = watch::channel(published);
        let common_tasks = self.common.start(nri_mounts(nri), shutdown);
        let own_tasks = [
            tokio::spawn(
                self.device_form_task(form, seen_to_drop.clone())
                    .run(shutdown.clone()),
            ),
            tokio::spawn(
                self.advertiser(desired, health, (seen_to_drop, device_form, daemon))
                    .run(Arc::clone(&self.hardware), shutdown.clone()),
            ),
        ];
        let daemon_watch = self.watch_daemon(published, shutdown);
        let driver = self.driver(daemon_watch);
        let guard = self.start_guard(nri)?;
        let kubelet = KubeletParts {
            driver,
            desired: desired_slice,
            health: device_health,
            unsupported_fields,
            second_plugin_hint: SECOND_PLUGIN_HINT,
        };
        let ended = self.common.serve_kubelet(kubelet, shutdown).await;
        shutdown.cancel();
        if let Some(guard) = guard {
            guard.shutdown().await;
        }
        for task in common_tasks.into_iter().chain(own_tasks) {
            // Tasks end at their next await. The panic hook has logged a panic.
            let _ = task.await;
        }
        // No more calls: no reports are added.
        self.common.claim_status.finish().await;
        info!("shutdown");
        ended
    }

    fn device_form_task(
        &self,
        form: watch::Sender<DeviceForm>,
        unsupported_fields: watch::Receiver<UnsupportedFields>,
    ) -> DeviceFormTask {
        DeviceFormTask {
            sharing: self.settings.sharing,
            data_dir: self.paths.data_dir.clone(),
            shared_claims: self.common.shared_claims.clone(),
            node_device: NodeDeviceLookup::new(self.common.client.clone(), &self.common.node_name),
            pods: self.common.pod_lookup(),
            form,
            unsupported_fields,
            marker_ready: self.common.readiness.add_condition(
                "device-marker",
                "the plugin does not know yet whether claims shared the device before the plugin started",
            ),
            heartbeat: self.common.liveness.add("device-form", REQUESTS_LIMIT),
            events: self.common.events.clone(),
            node: self.common.node_reference(),
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
        let condition = |name, reason| self.common.readiness.add_condition(name, reason);
        Advertiser {
            pool: self.common.node_name.clone(),
            heartbeat: self.common.liveness.add("advertiser", READS_LIMIT),
            placements: Placements::new(&self.settings),
            unsupported_fields,
            form,
            daemon,
            metrics: self.node_metrics.clone(),
            desired,
            health,
            fabric_ready: condition("fabric", "the fabric has not been read yet"),
            major_ready: condition("channel-major", "the channel major has not been read yet"),
            events: self.common.events.clone(),
            node: self.common.node_reference(),
        }
    }

    /// Starts the NRI guard. `None` if it is off.
    fn start_guard(&self, nri: &NriArgs) -> Result<Option<nri_plugin::Service>, StartError> {
        let mode = nri.nri_guard_mode;
        if mode == nri_guard::Mode::Off {
            return Ok(None);
        }
        let guard = NriGuard {
            mode,
            exempt: Arc::new(nri.exempt_namespaces()),
            shared_claims: self.common.shared_claims.clone(),
            hardware: Arc::clone(&self.hardware),
            pods: PodClaims::new(self.common.pod_lookup(), self.common.claim_lookup()),
            host_devices: HostDevices::new(nri.nri_guard_cdi_directories.clone()),
            reports: Reports {
                events: self.common.events.clone(),
                metrics: self.node_metrics.clone(),
                own_namespace: nri.namespace.as_str().into(),
            },
            starts_anyway: Arc::default(),
        };
        let service = guard.start(&nri.nri_socket);
        let service = service.map_err(|error| {
            StartError::new(&error, "this is a bug; please report it with this log")
        })?;
        let reason = "not registered with the container runtime yet";
        let ready = || self.common.readiness.add_condition("nri", reason);
        let connection = Connection {
            metrics: self.node_metrics.clone(),
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
            shared_claims: self.common.shared_claims.clone(),
            published,
            heartbeat: self.common.liveness.add("imex-daemon", WRITES_LIMIT),
            events: self.common.events.clone(),
            node: self.common.node_reference(),
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
            shared_claims: self.common.shared_claims.clone(),
            hardware: Arc::clone(&self.hardware),
            domains: DomainLookup::new(self.common.client.clone(), self.settings.isolation),
            holders: self.common.holders.clone(),
            imex_daemon,
            host_imex: self.imex_gate(),
            events: self.common.events.clone(),
            metrics: Arc::clone(&self.common.metrics),
            in_flight: self.common.in_flight.clone(),
            node: self.common.node_name.as_str().into(),
            cdi_root: self.paths.cdi_root.clone(),
            claim_status: self.common.claim_status.clone(),
        }
    }
}
