//! Start times of pods with claims beside other pods, from creation until they run.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::objects::NAMESPACE;

/// The limit for a pod's start or deletion.
const GIVE_UP: Duration = Duration::from_secs(120);

/// The number of pods in a burst.
pub(super) const BURST: usize = 20;

/// The times of pods with claims and of the same number of others, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) with: Duration,
    pub(super) floor: Duration,
}

/// The pods to start, and those to compare with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jobs<'a> {
    /// How many at once.
    pub(super) pods: usize,
    /// The template of their claims.
    pub(super) template: &'a str,
    /// The template of the other pods' claims; `None`: without claims.
    pub(super) floor: Option<&'a str>,
}

/// Starts pairs, alternating which comes first.
pub(super) async fn measure(
    client: &Client,
    node: &str,
    pairs: usize,
    jobs: Jobs<'_>,
) -> anyhow::Result<Vec<Pair>> {
    let (with, floor) = (Some(jobs.template), jobs.floor);
    let start = async |template| start(client, node, jobs.pods, template).await;
    let mut measured = Vec::with_capacity(pairs);
    start(with).await?;
    for number in 0..pairs {
        let pair = if number % 2 == 0 {
            let with = start(with).await?;
            let floor = start(floor).await?;
            Pair { with, floor }
        } else {
            let floor = start(floor).await?;
            let with = start(with).await?;
            Pair { with, floor }
        };
        measured.push(pair);
    }
    Ok(measured)
}

/// Measures the time from the first pod's creation until all are Running; then deletes them.
pub(super) async fn start(
    client: &Client,
    node: &str,
    count: usize,
    template: Option<&str>,
) -> anyhow::Result<Duration> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let wanted = (0..count).map(|number| mk_pod(&format!("pod-{number}"), node, template));
    let wanted = wanted.collect::<anyhow::Result<Vec<Pod>>>()?;
    let mut events = pin!(watcher(pods.clone(), watcher::Config::default()));
    // The watch runs before the measurement starts.
    while !matches!(events.try_next().await?, Some(Event::InitDone)) {}
    let began = Instant::now();
    let parameters = PostParams::default();
    try_join_all(wanted.iter().map(|pod| pods.create(&parameters, pod))).await?;
    let all_run = timeout(GIVE_UP, async {
        let mut running = BTreeSet::new();
        while let Some(event) = events.try_next().await? {
            if let Event::Apply(pod) = event
                && is_running(&pod)
            {
                running.insert(pod.metadata.name);
                if running.len() == count {
                    return Ok(began.elapsed());
                }
            }
        }
        bail!("the watch of the pods ended")
    });
    let took = all_run.await.context("not all pods run")??;
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    timeout(GIVE_UP, until_deleted(client, &pods))
        .await
        .context("the pods or their claims were not deleted")??;
    Ok(took)
}

/// Waits until this driver's device on the node is published for many claims.
pub(super) async fn until_shared(client: &Client, node: &str, driver: &str) -> anyhow::Result<()> {
    let slices: Api<ResourceSlice> = Api::all(client.clone());
    let ours = format!("spec.nodeName={node},spec.driver={driver}");
    let ours = ListParams::default().fields(&ours);
    let is_shared = |slice: &ResourceSlice| {
        let mut devices = slice.spec.devices.iter().flatten();
        devices.any(|device| device.allow_multiple_allocations == Some(true))
    };
    let published = timeout(GIVE_UP, async {
        while !slices.list(&ours).await?.iter().any(is_shared) {
            sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    });
    published.await.context("the device is not shared")?
}

/// A pod that sleeps, with a claim from the template.
fn mk_pod(name: &str, node: &str, template: Option<&str>) -> anyhow::Result<Pod> {
    let claim = |template| json!({"name": "channel", "resourceClaimTemplateName": template});
    let claims: Vec<_> = template.into_iter().map(claim).collect();
    let of_container: Vec<_> = claims.iter().map(|_| json!({"name": "channel"})).collect();
    let spec = json!({
        "nodeSelector": {"kubernetes.io/hostname": node},
        // With 0, the API server would delete the pod before kubelet has unprepared its claim.
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": claims,
        "containers": [{
            "name": "main", "image": "localhost/busybox:1", "imagePullPolicy": "Never",
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"], "resources": {"claims": of_container},
        }],
    });
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    Ok(serde_json::from_value(pod)?)
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Running")
}

/// Waits until all pods and their claims are deleted.
async fn until_deleted(client: &Client, pods: &Api<Pod>) -> anyhow::Result<()> {
    let claims: Api<PartialObjectMeta<ResourceClaim>> = Api::namespaced(client.clone(), NAMESPACE);
    loop {
        let list = ListParams::default();
        let of_pod = |claim: &PartialObjectMeta<ResourceClaim>| {
            let owners = claim.metadata.owner_references.as_ref();
            owners.is_some_and(|owners| !owners.is_empty())
        };
        let left = pods.list(&list).await?.items.len();
        if left == 0 && !claims.list(&list).await?.iter().any(of_pod) {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
}
