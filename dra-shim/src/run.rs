//! Puts the parts together and keeps them running.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::Settings;
use compute_domain_api::names::DRIVER_NAME;
use dra_kubelet::{Desired, DeviceHealth, KubeClaims, Plugin, Publication, Registration};
use imex_runtime::{
    Condition, Events, HttpArgs, HttpServer, Readiness, StartError, log_settings, signals,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use nvml_clique::{DriverRoot, HostImex};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::args::{Args, Paths};
use crate::domains::Domains;
use crate::driver::ComputeDomains;
use crate::hardware::{self, Consequences, Hardware};
use crate::keeper::Keeper;
use crate::live_claims::LiveClaims;
use crate::metrics::Metrics;
use crate::node_slot::NodeSlot;

const PROGRAM: &str = "compute-domain-kubelet-plugin";

/// How long directories that kubelet should have made may be missing at start.
const SOCKETS_WITHIN: Duration = Duration::from_secs(30);

/// What every part knows.
struct Shared {
    node_name: String,
    paths: Paths,
    settings: Settings,
    client: Client,
    readiness: Readiness,
    events: Arc<Events>,
    metrics: Arc<Metrics>,
    hardware: Arc<Hardware>,
    slot: NodeSlot,
    shutdown: CancellationToken,
}

/// Runs the plugin until a signal ends it.
///
/// # Errors
/// Only what a person has to change: see [`StartError`].
pub(crate) async fn run(args: Args) -> Result<(), StartError> {
    let Args {
        node_name,
        paths,
        healthcheck_port,
        imex,
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
    let readiness = Readiness::default();
    let client = kube
        .client(&readiness.condition("api-server", "it has not answered yet"))
        .await?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, &node_name);
    serve_http(&http, healthcheck_port, &readiness, registry, &shutdown).await?;

    let shared = Shared {
        events: Arc::new(Events::new(client.clone(), PROGRAM, &node_name)),
        hardware: Hardware::watch(paths.driver_root.clone(), paths.proc_devices.clone())?,
        slot: NodeSlot::new(),
        node_name,
        paths,
        settings,
        client,
        readiness,
        metrics,
        shutdown,
    };
    let keeper = tokio::spawn(shared.keeper().run(shared.shutdown.clone()));
    let (consequences, desired, health) = shared.consequences();
    let follower =
        tokio::spawn(Arc::clone(&shared.hardware).follow(consequences, shared.shutdown.clone()));

    let ended = serve_kubelet(&shared, desired, health).await;
    shared.shutdown.cancel();
    for task in [keeper, follower] {
        // They end at their next await; a panic in one was logged by the hook.
        let _ = task.await;
    }
    info!("shutdown");
    ended
}

/// Health on its own port, as kubelet's probes want it, and again beside the
/// metrics.
async fn serve_http(
    http: &HttpArgs,
    healthcheck_port: i32,
    readiness: &Readiness,
    registry: Registry,
    shutdown: &CancellationToken,
) -> Result<(), StartError> {
    let serve = |server: HttpServer, registry| {
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

/// Speaks with kubelet until a signal comes or the sockets are lost for good.
async fn serve_kubelet(
    shared: &Shared,
    desired: watch::Receiver<Desired>,
    health: watch::Receiver<Vec<DeviceHealth>>,
) -> Result<(), StartError> {
    let registered = shared
        .readiness
        .condition("kubelet", "not registered with kubelet yet");
    let published = shared
        .readiness
        .condition("resource-slice", "the node's devices are not published yet");
    let mut plugin = start(shared, &desired, &health).await?;
    let conditions = tokio::spawn(follow_kubelet(
        plugin.registration(),
        plugin.publication(),
        registered,
        published,
    ));
    let ended = tokio::select! {
        () = shared.shutdown.cancelled() => Ok(()),
        error = plugin.failed() => Err(StartError::new(&error, error.hint())),
    };
    conditions.abort();
    plugin.shutdown().await;
    ended
}

/// Opens the sockets. Directories may still be missing while kubelet starts.
async fn start(
    shared: &Shared,
    desired: &watch::Receiver<Desired>,
    health: &watch::Receiver<Vec<DeviceHealth>>,
) -> Result<Plugin, StartError> {
    let until = tokio::time::Instant::now() + SOCKETS_WITHIN;
    loop {
        let started = Plugin::builder(DRIVER_NAME, shared.node_name.as_str())
            .registry_dir(&shared.paths.registry_dir)
            .data_dir(&shared.paths.data_dir)
            .observer(shared.metrics.as_ref().clone())
            .health(health.clone())
            .publish(shared.client.clone(), desired.clone())
            .start(shared.driver(), KubeClaims::new(shared.client.clone()));
        match started {
            Ok(plugin) => return Ok(plugin),
            Err(error)
                if tokio::time::Instant::now() < until && !shared.shutdown.is_cancelled() =>
            {
                warn!(%error, "the sockets cannot be opened yet");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(StartError::new(&error, error.hint())),
        }
    }
}

/// Keeps two conditions in step with what kubelet and API server say.
async fn follow_kubelet(
    mut registration: watch::Receiver<Registration>,
    publication: Option<watch::Receiver<Publication>>,
    registered: Condition,
    published: Condition,
) {
    let Some(mut publication) = publication else {
        return;
    };
    loop {
        match &*registration.borrow_and_update() {
            Registration::Registered => registered.ready(),
            Registration::Refused { reason } => {
                registered.not_ready(&format!("kubelet refused: {reason}"));
            }
            Registration::Pending => registered.not_ready("not registered with kubelet yet"),
        }
        match &*publication.borrow_and_update() {
            // In a rolling update the other instance may be the one that publishes.
            Publication::Published { .. } | Publication::Withdrawn | Publication::Standby => {
                published.ready();
            }
            Publication::Failing { reason, .. } => published.not_ready(reason),
            Publication::Pending => published.not_ready("the node's devices are not published yet"),
        }
        let changed = tokio::select! {
            changed = registration.changed() => changed,
            changed = publication.changed() => changed,
        };
        if changed.is_err() {
            return; // the plugin has ended
        }
    }
}

impl Shared {
    fn driver(&self) -> ComputeDomains {
        let socket = self.settings.host_socket_path.clone();
        let host_imex =
            |socket| HostImex::new(DriverRoot::new(self.paths.host_root.clone()), socket);
        ComputeDomains {
            slot: self.slot.clone(),
            hardware: Arc::clone(&self.hardware),
            domains: Domains::new(self.client.clone()),
            host_imex: socket.map(host_imex),
            events: Arc::clone(&self.events),
            metrics: Arc::clone(&self.metrics),
        }
    }

    fn keeper(&self) -> Keeper {
        Keeper {
            paths: self.paths.clone(),
            slot: self.slot.clone(),
            hardware: Arc::clone(&self.hardware),
            live_claims: LiveClaims::new(self.client.clone(), &self.node_name),
            ready: self
                .readiness
                .condition("checkpoint", "the checkpoint is being opened"),
            events: Arc::clone(&self.events),
            node: self.node(),
            metrics: Arc::clone(&self.metrics),
        }
    }

    fn consequences(
        &self,
    ) -> (
        Consequences,
        watch::Receiver<Desired>,
        watch::Receiver<Vec<DeviceHealth>>,
    ) {
        let (desired, desired_out) = watch::channel(Desired::Undecided);
        let (health, health_out) = watch::channel(Vec::new());
        let (fabric_ready, major_ready) = hardware::conditions(&self.readiness);
        let consequences = Consequences {
            pool: self.node_name.clone(),
            desired,
            health,
            fabric_ready,
            major_ready,
            events: Arc::clone(&self.events),
            node: self.node(),
        };
        (consequences, desired_out, health_out)
    }

    /// The node as kubelet's own events name it: by its name in place of the UID.
    fn node(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node_name.clone()),
            uid: Some(self.node_name.clone()),
            ..ObjectReference::default()
        }
    }
}
