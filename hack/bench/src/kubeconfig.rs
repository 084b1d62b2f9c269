//! Kubeconfigs of the measured programs.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

/// Writes a kubeconfig with this cluster and this user.
pub(crate) fn write(path: &Path, cluster: &Value, user: &Value) -> anyhow::Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": user}],
    });
    fs::write(path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
}
