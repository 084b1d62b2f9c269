//! Pods with and without a claim, from their creation until they run.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::objects::{NAMESPACE, TEMPLATE};

/// A pod that has not come or gone by then never will.
const GIVE_UP: Duration = Duration::from_secs(120);

/// Two pods, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) with: Duration,
    pub(super) without: Duration,
}

/// Starts pairs of pods, alternating which comes first.
pub(super) async fn measure(
    client: &Client,
    node: &str,
    pairs: usize,
) -> anyhow::Result<Vec<Pair>> {
    let mut measured = Vec::with_capacity(pairs);
    start(client, node, true).await?;
    for number in 0..pairs {
        let with_first = number % 2 == 0;
        let one = start(client, node, with_first).await?;
        let other = start(client, node, !with_first).await?;
        let (with, without) = if with_first {
            (one, other)
        } else {
            (other, one)
        };
        measured.push(Pair { with, without });
    }
    Ok(measured)
}

/// How long a pod takes from its creation until it is Running; then it is deleted.
async fn start(client: &Client, node: &str, with_claim: bool) -> anyhow::Result<Duration> {
    let name = if with_claim { "with" } else { "without" };
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let (claims, of_container) = if with_claim {
        (
            json!([{"name": "channel", "resourceClaimTemplateName": TEMPLATE}]),
            json!([{"name": "channel"}]),
        )
    } else {
        (json!([]), json!([]))
    };
    let spec = json!({
        "nodeSelector": {"kubernetes.io/hostname": node},
        // With 0, the pod would be gone from the API server before kubelet has unprepared its claim.
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": claims,
        "containers": [{
            "name": "main", "image": "localhost/busybox:1", "imagePullPolicy": "Never",
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"], "resources": {"claims": of_container},
        }],
    });
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(watcher(pods.clone(), config));
    // The watch is up before the clock starts.
    while !matches!(events.try_next().await?, Some(Event::InitDone)) {}
    let began = Instant::now();
    pods.create(&PostParams::default(), &pod).await?;
    let running = timeout(GIVE_UP, async {
        while let Some(event) = events.try_next().await? {
            if matches!(&event, Event::Apply(pod) if is_running(pod)) {
                return Ok(began.elapsed());
            }
        }
        bail!("the watch of pod {name} ended")
    });
    let took = running
        .await
        .with_context(|| format!("pod {name} does not run"))??;
    pods.delete(name, &DeleteParams::default()).await?;
    timeout(GIVE_UP, gone(client, &pods))
        .await
        .with_context(|| format!("pod {name} or its claim does not go"))??;
    Ok(took)
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Running")
}

/// Returns once no pod is left, and no claim of one.
async fn gone(client: &Client, pods: &Api<Pod>) -> anyhow::Result<()> {
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
