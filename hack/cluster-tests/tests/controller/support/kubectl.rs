//! `kubectl`, for objects that a test applies once.

use std::process::Command;

use anyhow::Result;
use cluster_tests::output_of;
use serde_json::Value;

/// Runs `kubectl ARGS`.
pub(crate) fn kubectl(args: &[&str]) -> Result<String> {
    kubectl_with(args, "")
}

/// Runs `kubectl ARGS` with this standard input.
fn kubectl_with(args: &[&str], input: &str) -> Result<String> {
    output_of(Command::new("kubectl").args(args), input)
}

/// Objects other than domains and templates. Dropping this deletes them.
pub(crate) struct Applied(String);

impl Applied {
    /// Applies a list of objects.
    pub(crate) fn new(objects: &[Value]) -> Result<Self> {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        Self::manifest(list.to_string())
    }

    /// Applies a manifest.
    pub(crate) fn manifest(manifest: String) -> Result<Self> {
        kubectl_with(&["apply", "-f", "-"], &manifest)?;
        Ok(Self(manifest))
    }

    /// Deletes them now.
    pub(crate) fn delete(&self) -> Result<()> {
        let args = ["delete", "--ignore-not-found", "--wait=false", "-f", "-"];
        kubectl_with(&args, &self.0).map(drop)
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        drop(self.delete());
    }
}
