//! The plugin's pods, as an operator sees them.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{Cluster, eventually};

/// Where the chart is installed.
pub const NAMESPACE: &str = "imex-dra";

/// One plugin pod.
#[derive(Debug, Clone)]
pub struct PluginPod {
    cluster: Cluster,
    /// Its name.
    pub name: String,
}

impl PluginPod {
    /// The plugin pod on node `node` that is not being deleted.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn on(cluster: &Cluster, node: u8) -> Result<Self> {
        let selector = format!("--field-selector=spec.nodeName=node{node}");
        let pods = cluster.items(&[
            "pods",
            "-n",
            NAMESPACE,
            "-l",
            "imex-dra-component=kubelet-plugin",
            &selector,
        ])?;
        let names: Vec<&str> = pods
            .iter()
            .filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none())
            .filter_map(|pod| pod.pointer("/metadata/name").and_then(Value::as_str))
            .collect();
        match names.as_slice() {
            [name] => Ok(Self {
                cluster: cluster.clone(),
                name: (*name).to_owned(),
            }),
            names => bail!("node{node} has the plugin pods {names:?}"),
        }
    }

    /// Deletes the pod and waits for its successor's container to run.
    ///
    /// # Errors
    /// If none comes.
    pub fn replace(self, node: u8) -> Result<Self> {
        self.cluster
            .kubectl(&["delete", "pod", "-n", NAMESPACE, &self.name, "--wait"])?;
        eventually(&self.cluster, "a new plugin pod runs", || {
            let pod = Self::on(&self.cluster, node)?;
            pod.container_status()?
                .pointer("/state/running")
                .context("its container does not run yet")?;
            Ok(pod)
        })
    }

    /// `Ready` of the pod.
    ///
    /// # Errors
    /// If the pod is gone.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(self.container_status()?.get("ready") == Some(&Value::Bool(true)))
    }

    /// How often its container was restarted.
    ///
    /// # Errors
    /// If the pod is gone.
    pub fn restarts(&self) -> Result<u64> {
        self.container_status()?
            .get("restartCount")
            .and_then(Value::as_u64)
            .context("no restart count")
    }

    /// What its container printed so far.
    ///
    /// # Errors
    /// If the pod is gone.
    pub fn log(&self) -> Result<String> {
        self.cluster.kubectl(&["logs", "-n", NAMESPACE, &self.name])
    }

    /// Kills the plugin's process on its node with SIGKILL.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill(&self, node: u8) -> Result<()> {
        self.cluster.on_node(node, &self.kill_command()?).map(drop)
    }

    /// The command on its node that kills the plugin's process with SIGKILL; it
    /// needs no API server.
    ///
    /// # Errors
    /// If the pod has no container.
    pub fn kill_command(&self) -> Result<String> {
        let status = self.container_status()?;
        let id = status.get("containerID").and_then(Value::as_str);
        let id = id
            .and_then(|id| id.strip_prefix("containerd://"))
            .context("no container id")?;
        Ok(format!("ctr -n k8s.io task kill --signal SIGKILL {id}"))
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
