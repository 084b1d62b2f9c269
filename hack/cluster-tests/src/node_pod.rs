//! The chart's pods on each node, the kubelet plugin's and the IMEX daemon's: their state, and ways to kill
//! them.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{Cluster, wait_until};

/// The namespace in which the chart is installed.
pub const NAMESPACE: &str = "imex-dra";

/// A pod of the chart on a node.
#[derive(Debug, Clone)]
pub struct NodePod {
    cluster: Cluster,
    component: Component,
    /// Its name.
    pub name: String,
}

#[derive(Debug, Clone, Copy)]
enum Component {
    Plugin,
    ImexDaemon,
}

impl Component {
    /// The value of the pod's label.
    fn name(self) -> &'static str {
        match self {
            Self::Plugin => "kubelet-plugin",
            Self::ImexDaemon => "imex-daemon",
        }
    }

    /// The port for its metrics.
    fn port(self) -> u16 {
        match self {
            Self::Plugin => 8081,
            Self::ImexDaemon => 8082,
        }
    }
}

impl NodePod {
    /// The plugin pod on node `node` that is not being deleted.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn plugin(cluster: &Cluster, node: u8) -> Result<Self> {
        Self::on(cluster, Component::Plugin, node)
    }

    /// The IMEX daemon's pod on node `node` that is not being deleted.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn imex_daemon(cluster: &Cluster, node: u8) -> Result<Self> {
        Self::on(cluster, Component::ImexDaemon, node)
    }

    fn on(cluster: &Cluster, component: Component, node: u8) -> Result<Self> {
        let label = format!("imex-dra-component={}", component.name());
        let selector = format!("--field-selector=spec.nodeName=node{node}");
        let pods = cluster.items(&["pods", "-n", NAMESPACE, "-l", &label, &selector])?;
        let names: Vec<&str> = pods
            .iter()
            .filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none())
            .filter_map(|pod| pod.pointer("/metadata/name").and_then(Value::as_str))
            .collect();
        match names.as_slice() {
            [name] => Ok(Self {
                cluster: cluster.clone(),
                component,
                name: (*name).to_owned(),
            }),
            names => bail!("node{node} has the pods {names:?} of {component:?}"),
        }
    }

    /// Deletes the pod and waits until the container of its successor runs.
    ///
    /// # Errors
    /// If there is no running successor.
    pub fn replace(self, node: u8) -> Result<Self> {
        self.cluster
            .kubectl(&["delete", "pod", "-n", NAMESPACE, &self.name, "--wait"])?;
        wait_until(&self.cluster, "its successor is running", || {
            let pod = Self::on(&self.cluster, self.component, node)?;
            pod.container_status()?
                .pointer("/state/running")
                .context("its container does not run yet")?;
            Ok(pod)
        })
    }

    /// Whether the pod is ready.
    ///
    /// # Errors
    /// If the pod does not exist.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(self.container_status()?.get("ready") == Some(&Value::Bool(true)))
    }

    /// How often its container was restarted.
    ///
    /// # Errors
    /// If the pod does not exist.
    pub fn restarts(&self) -> Result<u64> {
        self.container_status()?
            .get("restartCount")
            .and_then(Value::as_u64)
            .context("no restart count")
    }

    /// The log of its container.
    ///
    /// # Errors
    /// If the pod does not exist.
    pub fn log(&self) -> Result<String> {
        self.cluster.kubectl(&["logs", "-n", NAMESPACE, &self.name])
    }

    /// Its metrics.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn metrics(&self) -> Result<String> {
        let (name, port) = (&self.name, self.component.port());
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy/metrics");
        self.cluster.kubectl(&["get", "--raw", &path])
    }

    /// Kills its process on its node with SIGKILL.
    ///
    /// # Errors
    /// If it is not running.
    pub fn kill(&self, node: u8) -> Result<()> {
        self.cluster.on_node(node, &self.kill_command()?).map(drop)
    }

    /// A command for [`Cluster::on_node`] that kills its process with SIGKILL, even
    /// while the API server is down.
    ///
    /// # Errors
    /// If the pod has no container.
    pub fn kill_command(&self) -> Result<String> {
        let id = self.container_id()?;
        Ok(format!("ctr -n k8s.io task kill --signal SIGKILL {id}"))
    }

    /// The id of its container in the runtime.
    ///
    /// # Errors
    /// If the pod has no container.
    pub fn container_id(&self) -> Result<String> {
        let status = self.container_status()?;
        let id = status.get("containerID").and_then(Value::as_str);
        let id = id.and_then(|id| id.split_once("://"));
        id.map(|(_, id)| id.to_owned()).context("no container id")
    }

    fn container_status(&self) -> Result<Value> {
        let pod = self
            .cluster
            .json(&["get", "pod", "-n", NAMESPACE, &self.name])?;
        pod.pointer("/status/containerStatuses/0")
            .cloned()
            .context("the pod has no container yet")
    }
}
