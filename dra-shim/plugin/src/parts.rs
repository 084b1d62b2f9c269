//! Builds and starts the tasks that are the same for every driver.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::{Events, Liveness, Readiness, ReadinessCondition, StartError};
use dra_kubelet::{DesiredPool, DeviceHealth, Driver};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::checkpoint::CheckpointTask;
use crate::claim_lookup::ClaimLookup;
use crate::claim_status::ClaimStatusWriter;
use crate::in_flight::InFlight;
use crate::kubelet::{KubeletConditions, KubeletServer, NOT_REGISTERED};
use crate::metrics::Metrics;
use crate::plugin_devices::PluginDevices;
use crate::pod_lookup::PodLookup;
use crate::reconciler::Reconciler;
use crate::references::node_reference;
use crate::removed_mounts::RemovedMounts;
use crate::reported_holders::ReportedHolders;
use crate::second_plugin::SecondPluginAlarm;
use crate::shared_claims::SharedClaims;
use crate::spec_keeper::SpecKeeper;
use crate::unsupported_fields::UnsupportedFields;
use crate::writer_watch::WriterWatch;

/// Heartbeat limit of tasks that read many claims from the API server, one after the other.
pub const REQUESTS_LIMIT: Duration = Duration::from_secs(600);
/// Heartbeat limit of tasks that write the checkpoint twice: a commit waits for 30 s at most.
pub const WRITES_LIMIT: Duration = Duration::from_secs(180);
/// Heartbeat limit of tasks that read small files.
pub const READS_LIMIT: Duration = Duration::from_secs(120);

/// The common inputs of a plugin's tasks. The driver's own tasks use them, too.
pub struct Parts<P: PluginDevices> {
    /// The name of this node.
    pub node_name: String,
    /// kubelet's directory of registration sockets.
    pub registry_dir: PathBuf,
    /// The directory of the checkpoint, its lock and the service socket.
    pub data_dir: PathBuf,
    /// The directory of the CDI specs.
    pub cdi_root: PathBuf,
    /// The client of the API server.
    pub client: Client,
    /// The conditions of `/readyz`.
    pub readiness: Readiness,
    /// Whether the API server can be reached.
    pub api_server: ReadinessCondition,
    /// The heartbeats of `/livez`.
    pub liveness: Liveness,
    /// The plugin's Kubernetes events.
    pub events: Events,
    /// The metrics of every plugin.
    pub metrics: Arc<Metrics>,
    /// The claims in progress.
    pub in_flight: InFlight,
    /// The driver's devices.
    pub devices: Arc<P>,
    /// The node's claims.
    pub shared_claims: SharedClaims<P::Devices>,
    /// The holders of devices that other claims need.
    pub holders: ReportedHolders,
    /// Reports prepared devices.
    pub claim_status: ClaimStatusWriter,
}

/// What a driver adds to the server for kubelet.
pub struct KubeletParts<D> {
    /// Prepares and unprepares claims.
    pub driver: D,
    /// The desired slice of the node.
    pub desired: watch::Receiver<DesiredPool>,
    /// The devices' health, for kubelet's health stream.
    pub health: watch::Receiver<Vec<DeviceHealth>>,
    /// Gets the device fields that the API server has dropped.
    pub unsupported_fields: watch::Sender<UnsupportedFields>,
    /// How to remove the most likely second plugin of this driver, such as `disable X with Y=false`.
    pub second_plugin_hint: &'static str,
}

// === impl Parts ===

impl<P: PluginDevices> Parts<P> {
    /// Starts the tasks around the claims: the checkpoint, its writer, the CDI specs, the reconciler, and
    /// `mounts`, the mounted directories of the host in addition to those of this struct.
    pub fn start(&self, mounts: Vec<PathBuf>, shutdown: &CancellationToken) -> [JoinHandle<()>; 5] {
        [
            tokio::spawn(self.spec_keeper().run(shutdown.clone())),
            tokio::spawn(self.removed_mounts(mounts).run(shutdown.clone())),
            tokio::spawn(self.writer_watch().run(shutdown.clone())),
            tokio::spawn(self.checkpoint_task().run(shutdown.clone())),
            tokio::spawn(self.reconciler().run(shutdown.clone())),
        ]
    }

    /// Serves kubelet until `shutdown`.
    ///
    /// # Errors
    /// The sockets cannot be opened, or are lost permanently.
    // req: NODE-34
    pub async fn serve_kubelet<D: Driver + Clone>(
        &self,
        parts: KubeletParts<D>,
        shutdown: &CancellationToken,
    ) -> Result<(), StartError> {
        let condition = |name, reason| self.readiness.add_condition(name, reason);
        let server = KubeletServer {
            driver_name: P::DRIVER,
            node_name: self.node_name.clone(),
            registry_dir: self.registry_dir.clone(),
            data_dir: self.data_dir.clone(),
            client: self.client.clone(),
            driver: parts.driver,
            metrics: Arc::clone(&self.metrics),
            in_flight: self.in_flight.clone(),
            events: self.events.clone(),
            desired: parts.desired,
            health: parts.health,
            second_plugin: SecondPluginAlarm {
                metrics: Arc::clone(&self.metrics),
                events: self.events.clone(),
                node: self.node_reference(),
                hint: parts.second_plugin_hint,
            },
            publisher: self.liveness.add("publisher", READS_LIMIT),
            conditions: KubeletConditions {
                api_server: self.api_server.clone(),
                registered: condition("kubelet", NOT_REGISTERED),
                published: condition("resource-slice", "the node's devices are not published yet"),
                unsupported_fields: parts.unsupported_fields,
            },
        };
        server.serve(shutdown).await
    }

    /// Looks up claims of this driver and node.
    pub fn claim_lookup(&self) -> ClaimLookup {
        ClaimLookup::new(self.client.clone(), P::DRIVER, &self.node_name)
    }

    /// Looks up pods of this node.
    pub fn pod_lookup(&self) -> PodLookup {
        PodLookup::new(self.client.clone(), &self.node_name)
    }

    /// The node as the object of an event.
    pub fn node_reference(&self) -> ObjectReference {
        node_reference(&self.node_name)
    }

    fn spec_keeper(&self) -> SpecKeeper<P> {
        SpecKeeper {
            cdi_root: self.cdi_root.clone(),
            heartbeat: self.liveness.add("spec-keeper", WRITES_LIMIT),
            shared_claims: self.shared_claims.clone(),
            devices: Arc::clone(&self.devices),
        }
    }

    fn removed_mounts(&self, further: Vec<PathBuf>) -> RemovedMounts {
        // This process creates the data directory; its parent is mounted.
        let plugins = self.data_dir.parent().unwrap_or(&self.data_dir);
        let mut mounts = vec![
            self.cdi_root.clone(),
            self.registry_dir.clone(),
            plugins.to_owned(),
        ];
        mounts.extend(further);
        RemovedMounts {
            mounts,
            heartbeat: self.liveness.add("mounts", READS_LIMIT),
        }
    }

    fn writer_watch(&self) -> WriterWatch<P::Devices> {
        WriterWatch {
            shared_claims: self.shared_claims.clone(),
            writer: self.liveness.add("checkpoint-writer", 2 * WRITES_LIMIT),
            changeable: self
                .readiness
                .add_condition("checkpoint-lock", "the checkpoint is being opened"),
        }
    }

    fn checkpoint_task(&self) -> CheckpointTask<P> {
        CheckpointTask {
            data_dir: self.data_dir.clone(),
            cdi_root: self.cdi_root.clone(),
            devices: Arc::clone(&self.devices),
            shared_claims: self.shared_claims.clone(),
            heartbeat: self.liveness.add("checkpoint-keeper", REQUESTS_LIMIT),
            lookup: self.claim_lookup(),
            ready: self
                .readiness
                .add_condition("checkpoint", "the checkpoint is being opened"),
            metrics: Arc::clone(&self.metrics),
            events: self.events.clone(),
            node: self.node_reference(),
        }
    }

    fn reconciler(&self) -> Reconciler<P::Devices> {
        Reconciler::new(
            self.shared_claims.clone(),
            self.claim_lookup(),
            self.pod_lookup(),
            self.holders.clone(),
            self.liveness.add("reconciler", REQUESTS_LIMIT),
        )
    }
}
