//! `kubectl`, for what is applied once in a test.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Runs `kubectl ARGS`.
pub(crate) fn kubectl(args: &[&str]) -> Result<String> {
    kubectl_with(args, "")
}

/// Runs `kubectl ARGS` with this standard input.
fn kubectl_with(args: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new("kubectl")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("no standard input")?
        .write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "kubectl {} failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Objects without a namespace, or beside the domains, which are deleted when this is dropped.
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
