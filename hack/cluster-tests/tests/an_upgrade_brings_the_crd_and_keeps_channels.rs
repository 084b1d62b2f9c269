//! An upgrade of the chart replaces an older `CustomResourceDefinition` (Helm alone would not). It refuses to replace
//! a newer one that `ComputeDomains` need, and refuses to take away their channels.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, ChartValue, DOMAINS, TestDomain};
use cluster_tests::release::upgrade;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

const ISOLATION: &str = "resources.computeDomains.imex.isolation";

/// A status field that no `CustomResourceDefinition` of this chart has.
const NEWER: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/newer";

/// The columns that kubectl prints.
fn columns(cluster: &Cluster) -> Result<String> {
    let columns = "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}";
    cluster.kubectl(&["get", "crd", DOMAINS, "-o", columns])
}

fn refusal(cluster: &Cluster, options: &[&str]) -> Result<String> {
    let err = upgrade(cluster, options).err();
    Ok(format!("{:#}", err.context("the upgrade has not failed")?))
}

// req: CD-4
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_crd_of_the_go_driver_is_replaced_under_a_live_domain() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "crd-older")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let go = root.join("controller/api/fixtures/computedomains-go.yaml");
    let go = go.to_str().context("the path is not UTF-8")?;
    cluster.kubectl(&["replace", "-f", go])?;
    ensure!(columns(&cluster)?.is_empty(), "the older CRD has columns");
    upgrade(&cluster, &[])?;
    let columns = columns(&cluster)?;
    ensure!(columns.contains("Channel"), "columns: {columns:?}");
    wait_until(&cluster, "the status has conditions", || {
        let get = ["get", DOMAINS, "train", "-n", &namespace.name];
        let status = cluster.json(&get)?;
        let conditions = status
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        ensure!(conditions.is_some_and(|it| !it.is_empty()), "{status}");
        Ok(())
    })?;
    domain.delete(&cluster, &namespace)
}

// req: CD-4
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_newer_crd_stays_while_a_domain_needs_it() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "crd-newer")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let patch = json!([{ "op": "add", "path": NEWER, "value": { "type": "string" } }]);
    let patch = format!("--patch={patch}");
    cluster.kubectl(&["patch", "crd", DOMAINS, "--type=json", &patch])?;
    wait_until(&cluster, "the newer field is stored", || {
        let name = ["patch", DOMAINS, "train", "-n", &namespace.name];
        let status = [
            "--subresource=status",
            "--type=merge",
            "--patch",
            r#"{"status":{"newer":"x"}}"#,
        ];
        cluster.kubectl(&[&name[..], &status].concat())?;
        let newer = [
            "get",
            DOMAINS,
            "train",
            "-n",
            &namespace.name,
            "-o",
            "jsonpath={.status.newer}",
        ];
        ensure!(cluster.kubectl(&newer)? == "x", "it is not");
        Ok(())
    })?;
    let output = refusal(&cluster, &[])?;
    let words = "1 ComputeDomains (crd-newer/train) have fields that the CustomResourceDefinition of this chart lacks (status.newer)";
    ensure!(output.contains(words), "helm printed: {output}");
    domain.delete(&cluster, &namespace)?;
    upgrade(&cluster, &[])
}

// req: CHART-13
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn isolation_ends_under_a_domain_with_a_channel_only_with_override() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "isolation-ends")?;
    let isolation = ChartValue::set(&cluster, ISOLATION, "channel")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let none = format!("--set={ISOLATION}=none");
    let output = refusal(&cluster, &[&none])?;
    let words = "1 ComputeDomain would lose an isolated IMEX channel with imex.isolation=none (isolation-ends/train)";
    ensure!(output.contains(words), "helm printed: {output}");
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;
    upgrade(&cluster, &[&none, "--set=guard.override=true"])?;
    drop(isolation);
    Ok(())
}
