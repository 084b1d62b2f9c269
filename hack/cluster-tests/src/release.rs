//! The chart's release, installed by `hack/install.sh`.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

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
/// If helm fails; with its output.
pub fn helm(cluster: &Cluster, verb: &str, args: &[&str]) -> Result<String> {
    let command = ["helm", verb, RELEASE, "--namespace=imex-dra"];
    cluster.script(&[&command[..], args].concat(), "")
}

/// As [`helm`], but it must fail. Returns its output.
///
/// # Errors
/// If helm succeeds.
pub fn helm_refuses(cluster: &Cluster, verb: &str, args: &[&str]) -> Result<String> {
    let refused = helm(cluster, verb, args).err();
    let refused = refused.with_context(|| format!("helm {verb} {args:?} has not failed"))?;
    Ok(format!("{refused:#}"))
}

/// Upgrades the release with its values and these options; waits until its pods are ready.
///
/// # Errors
/// If they do not become ready, or a hook Job refuses the upgrade; with the Job's log.
pub fn upgrade(cluster: &Cluster, options: &[&str]) -> Result<()> {
    let common = [CHART, "--reuse-values", "--wait", "--timeout=120s"];
    helm(cluster, "upgrade", &[&common[..], options].concat()).map(drop)
}

/// The release's values, for [`install`].
///
/// # Errors
/// If there is no release.
pub fn values(cluster: &Cluster) -> Result<String> {
    let get = ["helm", "get", "values", RELEASE, "--namespace=imex-dra"];
    cluster.script(&[&get[..], &["--output=json"]].concat(), "")
}

/// Installs the release with these values, and waits until its pods are ready.
///
/// # Errors
/// If they do not become ready, or the release already exists.
pub fn install(cluster: &Cluster, values: &str) -> Result<()> {
    let install = ["helm", "install", RELEASE, CHART, "--namespace=imex-dra"];
    let options = ["--wait", "--timeout=120s", "--values=-"];
    cluster
        .script(&[&install[..], &options].concat(), values)
        .map(drop)
}

/// The number of the newest revision.
///
/// # Errors
/// If there is no release.
pub fn revision(cluster: &Cluster) -> Result<String> {
    let status: Value = serde_json::from_str(&helm(cluster, "status", &["--output=json"])?)?;
    let version = status.get("version").context("no revision")?;
    Ok(version.to_string())
}

/// Rolls back to a revision and waits until its pods are ready.
///
/// # Errors
/// As [`upgrade`].
pub fn roll_back(cluster: &Cluster, revision: &str) -> Result<()> {
    let back = [revision, "--wait", "--timeout=120s"];
    helm(cluster, "rollback", &back).map(drop)
}

/// All objects of the release and the programs except events, as `KIND/NAME`.
///
/// # Errors
/// As [`Cluster::items`].
pub fn objects_of_driver(cluster: &Cluster) -> Result<Vec<String>> {
    let kinds = cluster.kubectl(&["api-resources", "--verbs=list", "-o", "name"])?;
    let is_report = |kind: &&str| !kind.starts_with("events");
    let kinds: Vec<&str> = kinds.lines().filter(is_report).collect();
    ensure!(kinds.len() > 40, "only {} kinds: {kinds:?}", kinds.len());
    let mut ours = Vec::new();
    for object in cluster.items(&[&kinds.join(","), "-A"])? {
        let part = |at: &str| object.pointer(at).map(Value::to_string).unwrap_or_default();
        let marks = [
            "/metadata/name",
            "/metadata/labels",
            "/metadata/annotations",
            "/metadata/ownerReferences",
            "/metadata/finalizers",
            "/spec/driver",
        ];
        let marks = marks.map(part).concat();
        let words = ["imex", "compute-domain", "computedomain"];
        if words.iter().any(|word| marks.contains(word)) {
            let (kind, name) = (part("/kind"), part("/metadata/name"));
            ours.push(format!("{kind}/{name}").replace('"', ""));
        }
    }
    ours.sort();
    ours.dedup();
    Ok(ours)
}
