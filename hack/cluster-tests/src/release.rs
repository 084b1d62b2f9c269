//! The chart's release, as `hack/install.sh` has made it.

use anyhow::Result;

use crate::Cluster;

/// The release and its namespace.
pub const RELEASE: &str = "imex-dra";

/// The chart's directory.
pub const CHART: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deployments/helm/imex-dra"
);

/// Runs `helm VERB imex-dra ARGS` for the release.
///
/// # Errors
/// If helm fails: what it printed.
pub fn helm(cluster: &Cluster, verb: &str, args: &[&str]) -> Result<String> {
    let command = ["helm", verb, RELEASE, "--namespace=imex-dra"];
    cluster.script(&[&command[..], args].concat(), "")
}

/// Upgrades the release with its values and these, and waits until its pods are ready.
///
/// # Errors
/// If they are not, or a Job refuses it: with what that Job has printed.
pub fn upgrade(cluster: &Cluster, options: &[&str]) -> Result<()> {
    let common = [CHART, "--reuse-values", "--wait", "--timeout=120s"];
    helm(cluster, "upgrade", &[&common[..], options].concat()).map(drop)
}
