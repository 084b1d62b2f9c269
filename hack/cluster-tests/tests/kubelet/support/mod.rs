//! What the scenarios share: the node as it is seen from inside, its kubelet, pods
//! and claims that bypass the scheduler, and drivers whose behaviour the test sets.

mod driver;
mod health;
mod kubelet;
mod pods;
mod process;
mod proxy;
mod scenario;
mod slices;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

pub(crate) use driver::{Behavior, FAILURE, ScriptedDriver};
pub(crate) use health::{NO_HEALTH, health};
pub(crate) use kubelet::Kubelet;
pub(crate) use pods::{AllocationResult, allocated};
pub(crate) use scenario::run;

/// The node that the tests run on.
pub(crate) const NODE: &str = "node1";

/// What a scenario works with: a namespace and a driver name of its own on [`NODE`].
pub(crate) struct Node {
    pub(crate) client: kube::Client,
    pub(crate) kubelet: Kubelet,
    pub(crate) namespace: String,
    pub(crate) driver: String,
}

impl Node {
    async fn connect(numbers: &str) -> Result<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let client = kube::Client::try_default()
            .await
            .context("no cluster; run this with hack/e2e.sh kubelet")?;
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let number: String = numbers
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let namespace = format!("s{number}-{serial}-{:x}", std::process::id());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &object)
            .await?;
        Ok(Self {
            client,
            kubelet: Kubelet::of_cluster()?,
            driver: format!("{namespace}.example.com"),
            namespace,
        })
    }

    /// Deletes the namespace, without waiting until it is gone.
    async fn delete_namespace(&self) {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        drop(
            namespaces
                .delete(&self.namespace, &DeleteParams::default())
                .await,
        );
    }

    /// Prints the scenario's pods, and kubelet's log lines about its driver.
    async fn print_state(&self) {
        for line in self.describe_pods().await {
            eprintln!("{line}");
        }
        for line in self.kubelet.lines_about(&self.namespace, 60) {
            eprintln!("kubelet: {line}");
        }
    }
}

/// Checks `condition` until it is `Ok`, or until the scenario's timeout. The last error
/// is printed every 20 s.
pub(crate) async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Result<T>) -> T {
    let mut printed = Instant::now();
    loop {
        match condition().await {
            Ok(value) => return value,
            Err(error) if printed.elapsed() > Duration::from_secs(20) => {
                eprintln!("still waiting until {what}: {error:#}");
                printed = Instant::now();
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Fails as soon as `condition` does, succeeds when `time` is over: for what must
/// not happen.
pub(crate) async fn throughout(
    time: Duration,
    mut condition: impl AsyncFnMut() -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        condition().await?;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

/// As [`until`], but it must happen within `limit`; returns how long it took.
pub(crate) async fn within(
    limit: Duration,
    what: &str,
    condition: impl AsyncFnMut() -> Result<()>,
) -> Result<Duration> {
    let started = Instant::now();
    if tokio::time::timeout(limit, until(what, condition))
        .await
        .is_err()
    {
        bail!("{what}: not within {limit:?}");
    }
    Ok(started.elapsed())
}

/// A duration as text, for a remark.
pub(crate) fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}
