//! Namespaces for tests that run inside the cluster.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use serde_json::json;

/// Creates a namespace with the label `imex-dra-test=SUITE`. Returns its unique name, which begins
/// with `prefix`.
///
/// # Errors
/// If the API server refuses it.
pub async fn create_namespace(client: kube::Client, suite: &str, prefix: &str) -> Result<String> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let name = format!("{prefix}-{serial}-{:x}", std::process::id());
    let labels = json!({"imex-dra-test": suite});
    let object = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))?;
    Api::<Namespace>::all(client)
        .create(&PostParams::default(), &object)
        .await?;
    Ok(name)
}
