//! The NVLink clique of a node, and its label.

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::Cluster;

/// The clique in which `hack/mock-node.sh` puts all nodes.
pub const CLIQUE: &str = "8f4b8d52-3a1e-4c07-9d2f-6b1f0c9a7e11.7";

/// Another clique of the same NVLink domain.
pub const OTHER_CLIQUE: &str = "8f4b8d52-3a1e-4c07-9d2f-6b1f0c9a7e11.8";

/// The label of nodes.
pub const LABEL: &str = "nvidia.com/gpu.clique";

/// The chart's value for it.
pub const LABEL_ENABLED: &str = "kubeletPlugin.containers.computeDomains.gpuCliqueLabelEnabled";

/// The value of the node's label, if it has one.
///
/// # Errors
/// As [`Cluster::json`].
pub fn label(cluster: &Cluster, node: u8) -> Result<Option<String>> {
    let node = cluster.json(&["get", "node", &format!("node{node}")])?;
    let labels = node.pointer("/metadata/labels").context("no labels")?;
    let label = labels.get(LABEL).and_then(Value::as_str);
    Ok(label.map(str::to_owned))
}
