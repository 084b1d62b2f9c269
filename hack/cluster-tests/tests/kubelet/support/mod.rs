//! Shared code of the scenarios: the node as seen from inside, its kubelet, pods and
//! claims that bypass the scheduler, and drivers with scripted behaviour.

mod driver;
mod health;
mod kubelet;
mod pods;
mod process;
mod proxy;
mod scenario;
mod slices;

use anyhow::{Context as _, Result};
use cluster_tests::create_namespace;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams};

pub(crate) use cluster_tests::{seconds, throughout, until, within};
pub(crate) use driver::{Behavior, FAILURE, ScriptedDriver};
pub(crate) use health::{NO_HEALTH, TWICE, health};
pub(crate) use kubelet::Kubelet;
pub(crate) use pods::{AllocationResult, allocated};
pub(crate) use scenario::run;

/// The node that the tests run on.
pub(crate) const NODE: &str = "node1";

/// The environment of a scenario: its own namespace and driver name on [`NODE`].
pub(crate) struct Node {
    pub(crate) client: kube::Client,
    pub(crate) kubelet: Kubelet,
    pub(crate) namespace: String,
    pub(crate) driver: String,
}

impl Node {
    async fn connect(numbers: &str) -> Result<Self> {
        let client = kube::Client::try_default()
            .await
            .context("no cluster; run this with hack/e2e.sh kubelet")?;
        let number: String = numbers
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let namespace = create_namespace(client.clone(), "kubelet", &format!("s{number}")).await?;
        Ok(Self {
            client,
            kubelet: Kubelet::of_cluster()?,
            driver: format!("{namespace}.example.com"),
            namespace,
        })
    }

    /// Deletes the namespace without waiting.
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
