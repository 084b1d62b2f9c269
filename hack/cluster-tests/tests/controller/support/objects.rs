//! Operations on both domains and templates.

use anyhow::{Result, bail};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// Fails as long as the object exists.
pub(super) async fn is_gone(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    match api.get_opt(name).await? {
        None => Ok(()),
        Some(it) => bail!("{name} has the finalizers {:?}", it.metadata.finalizers),
    }
}

/// Replaces the object's finalizers by this list; null removes all.
pub(super) async fn set_finalizers(
    api: &Api<DynamicObject>,
    name: &str,
    all: &Value,
) -> kube::Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": all}}));
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    patched.map(drop)
}
