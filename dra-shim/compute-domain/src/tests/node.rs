//! A node with the plugin's real parts (driver, claims on disk, reconciler) and healthy
//! hardware.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use compute_domain_api::names::{CLAIM_REPORTER, DRIVER_NAME};
use compute_domain_api::{Isolation, Sharing};
use compute_domain_node::{HolderPolicy, ImexChannels, ImexDaemon, NodeClaims};
use daemon_runtime::{Events, Liveness};
use dra_checkpoint::BootId;
use dra_kubelet::{
    Claim, ClaimRef, ClaimSource as _, Context, Driver as _, KubeClaims, PreparedDevice,
};
use durable_file::OsDir;
use nvml_clique::{ClusterUuid, FabricProbe, Gpu, GpuFabricState, GpuRef, ProbeError, WatchConfig};
use plugin_parts::{
    ClaimLookup, ClaimStatusWriter, InFlight, Metrics, PodLookup, Reconciler, ReportedHolders,
};
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::api_server::ApiServer;
use crate::channel_devices::SharedClaims;
use crate::domain_lookup::DomainLookup;
use crate::driver::ComputeDomainDriver;
use crate::host_imex::HostImexGate;
use crate::monitor::HardwareMonitor;

pub(crate) const NODE: &str = "n1";

/// The Go driver's policy: no isolation, and one claim at a time.
pub(crate) const EXCLUSIVE: HolderPolicy = HolderPolicy {
    isolation: Isolation::None,
    sharing: Sharing::One,
};

/// One plugin and its directories.
pub(crate) struct TestNode {
    pub(crate) root: TempDir,
    pub(crate) driver: ComputeDomainDriver,
    pub(crate) claims: Arc<NodeClaims>,
    pub(crate) lookup: ClaimLookup,
    pods: PodLookup,
    source: KubeClaims,
}

/// A host with one GPU that has joined its fabric.
struct HealthyGpu;

impl FabricProbe for HealthyGpu {
    fn read(&self) -> Result<Vec<Gpu>, ProbeError> {
        let fabric = GpuFabricState::Completed {
            cluster: ClusterUuid([7; 16]),
            clique_id: 0,
        };
        let id = GpuRef {
            index: 0,
            uuid: None,
        };
        Ok(vec![Gpu {
            id,
            name: None,
            fabric,
            health: None,
        }])
    }
}

impl TestNode {
    pub(crate) fn start(server: &ApiServer) -> Self {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("devices");
        std::fs::write(
            &devices,
            "Character devices:\n235 nvidia-caps-imex-channels\n",
        )
        .unwrap();
        let hardware = HardwareMonitor::watch(HealthyGpu, WatchConfig::default(), devices).unwrap();
        while hardware.snapshot().check_fabric().is_err() {
            std::thread::yield_now(); // until the first reading
        }
        let claims = open(root.path(), None);
        let shared_claims = SharedClaims::default();
        shared_claims.set_available(Arc::clone(&claims));
        let client = server.client();
        let metrics = mk_metrics();
        let hardware = Arc::new(hardware);
        let driver = ComputeDomainDriver {
            shared_claims,
            hardware,
            domains: DomainLookup::new(client.clone(), Isolation::None),
            holders: ReportedHolders::default(),
            imex_daemon: None,
            host_imex: HostImexGate::default(),
            events: Events::new(client.clone(), "test", NODE),
            in_flight: InFlight::default(),
            node: NODE.into(),
            cdi_root: root.path().join("cdi"),
            claim_status: ClaimStatusWriter::new(
                client.clone(),
                CLAIM_REPORTER,
                Arc::clone(&metrics),
            ),
            metrics,
        };
        Self {
            root,
            driver,
            claims,
            lookup: ClaimLookup::new(client.clone(), DRIVER_NAME, NODE),
            pods: PodLookup::new(client.clone(), NODE),
            source: KubeClaims::new(client),
        }
    }

    /// One attempt, as in kubelet's call: reads the claim, then prepares it.
    pub(crate) async fn prepare(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<PreparedDevice>, String> {
        let json = self
            .source
            .get(namespace, name)
            .await
            .map_err(|error| error.to_string())?;
        let claim =
            Claim::parse(&json, &mk_ref(namespace, name), "compute-domain.nvidia.com").unwrap();
        let prepared = self.driver.prepare(&mk_context(), &claim).await;
        prepared.map_err(|error| error.message().to_owned())
    }

    /// A reconciler of this node's records. Runs until it is dropped.
    pub(crate) fn reconciler(&self) -> Reconciler<ImexChannels> {
        Reconciler::new(
            self.driver.shared_claims.clone(),
            self.lookup.clone(),
            self.pods.clone(),
            self.driver.holders.clone(),
            Liveness::default().add("reconciler", Duration::from_secs(600)),
        )
    }

    /// The directory of the checkpoint.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.root.path().join("data")
    }

    pub(crate) fn recorded(&self) -> Vec<String> {
        let recorded = self.claims.recorded_claims();
        recorded.into_iter().map(|claim| claim.uid).collect()
    }
}

/// Opens the claims in the directories below `root`; with `daemon`, in the driver-managed mode.
pub(crate) fn open(root: &Path, daemon: Option<&Path>) -> Arc<NodeClaims> {
    let dir = |name: &str| Arc::new(OsDir::create(root.join(name), 0o755).unwrap());
    let boot = BootId::new("boot-1").unwrap();
    let (data, cdi) = (dir("data"), dir("cdi"));
    let channels = ImexChannels::new(EXCLUSIVE);
    let channels = match daemon {
        Some(dir) => channels.with_daemon(ImexDaemon::new(dir, boot.clone())),
        None => channels,
    };
    Arc::new(channels.start(data, cdi, boot, None).unwrap().0)
}

pub(crate) fn mk_metrics() -> Arc<Metrics> {
    Metrics::register(&mut Registry::default(), NODE, DRIVER_NAME, &["channel"])
}

/// A claim whose name is its UID.
pub(crate) fn mk_ref(namespace: &str, name: &str) -> ClaimRef {
    ClaimRef {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
    }
}

fn mk_context() -> Context {
    Context::new(
        Instant::now() + Duration::from_secs(30),
        CancellationToken::new(),
    )
}
