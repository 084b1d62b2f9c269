//! A DRA driver that gives each device to one claim at a time, also after crashes, reboots and damaged files. It uses
//! `dra-kubelet` for kubelet, `dra-checkpoint` for the records and `imex-cdi` for the CDI specs. A pod that claims a
//! lamp finds `LAMP=lamp-0` in its environment.
//!
//! Run it as root on a node: `NODE_NAME=node1 KUBECONFIG=FILE lamps`, or in a pod with `NODE_NAME`.

mod lamps;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dra_checkpoint::BootId;
use dra_kubelet::{
    Claim, ClaimError, ClaimRef, Context, DesiredPool, Driver, KubeClaims, Plugin, PreparedDevice,
};
use durable_file::OsDir;
use jiff::Timestamp;
use k8s_openapi::api::resource::v1 as resource;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::warn;

use crate::lamps::Lamps;

const DRIVER: &str = "lamps.example.com";
const PLUGINS: &str = "/var/lib/kubelet/plugins";
const CDI_DIR: &str = "/var/run/cdi";
/// Pause between two attempts. Each attempt lists all claims of the cluster.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(10);

struct LampDriver(Arc<Lamps>);

impl Driver for LampDriver {
    async fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> Result<Vec<PreparedDevice>, ClaimError> {
        let (lamps, claim) = (Arc::clone(&self.0), claim.clone());
        let prepare = move || Ok(lamps.prepare(&claim, Timestamp::now())?);
        context.run_blocking(prepare).await
    }

    async fn unprepare(&self, context: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        let (lamps, uid) = (Arc::clone(&self.0), claim.uid.clone());
        let unprepare = move || Ok(lamps.unprepare(&uid, Timestamp::now())?);
        context.run_blocking(unprepare).await
    }
}

/// The claims that have devices of this driver on this node.
async fn allocated(client: &Client, node: &str) -> Result<Vec<Claim>, Box<dyn Error>> {
    let api = Api::<resource::ResourceClaim>::all(client.clone());
    let mut claims = Vec::new();
    for object in api.list(&ListParams::default()).await? {
        let id = ClaimRef {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        };
        // Claims without an allocation are an error of `parse`, and ignored.
        let claim = Claim::parse(&serde_json::to_string(&object)?, &id, DRIVER);
        claims.extend(
            claim
                .ok()
                .filter(|it| it.results.iter().any(|result| result.pool() == node)),
        );
    }
    Ok(claims)
}

/// Rebuilds damaged records, now or later, from the claims on the API server.
async fn recover(lamps: Arc<Lamps>, client: Client, node: String) {
    loop {
        if lamps.is_damaged()
            && let Err(error) = rebuild(&lamps, &client, &node).await
        {
            warn!(
                "no further claims are prepared: the records are damaged and cannot be rebuilt: {error}"
            );
        }
        tokio::time::sleep(RECOVERY_INTERVAL).await;
    }
}

async fn rebuild(lamps: &Arc<Lamps>, client: &Client, node: &str) -> Result<(), Box<dyn Error>> {
    let allocated = allocated(client, node).await?;
    let lamps = Arc::clone(lamps);
    let rebuild = move || lamps.rebuild(&allocated, Timestamp::now());
    Ok(tokio::task::spawn_blocking(rebuild).await??)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let node = std::env::var("NODE_NAME").map_err(|_| "set NODE_NAME to the name of this node")?;
    let client = Client::try_default().await?;
    let mut terminate = signal(SignalKind::terminate())?;

    let lamps = Lamps::open(
        Arc::new(OsDir::create(Path::new(PLUGINS).join(DRIVER), 0o750)?),
        Arc::new(OsDir::create(CDI_DIR, 0o755)?),
        BootId::current()?,
    )?;
    let lamps = Arc::new(lamps);
    tokio::spawn(recover(Arc::clone(&lamps), client.clone(), node.clone()));

    let device = |n| resource::Device {
        name: format!("lamp-{n}"),
        ..Default::default()
    };
    let (_devices, desired) = watch::channel(DesiredPool::Devices((0..4).map(device).collect()));
    let mut plugin = Plugin::builder(DRIVER, &node)
        .publish(client.clone(), desired)
        .start(LampDriver(lamps), KubeClaims::new(client))?;
    tokio::select! {
        error = plugin.failed() => return Err(error.into()),
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    plugin.shutdown().await;
    Ok(())
}
