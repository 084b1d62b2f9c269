//! With only the chart's permissions, the plugin reports a prepared device in the claim's status.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, DOMAINS, TestDomain};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::json;

// req: NODE-40
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_claim_of_a_running_pod_names_its_domain_clique_and_channel() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "reported")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;
    let uid = cluster.json(&["get", DOMAINS, "train", "-n", &namespace.name])?;
    let uid = uid.pointer("/metadata/uid").context("no UID")?.clone();
    wait_until(&cluster, "the device is reported", || {
        let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
        let device = claims
            .first()
            .and_then(|claim| claim.pointer("/status/devices/0"))
            .with_context(|| format!("the claims: {claims:#?}"))?;
        let field = |path: &str| device.pointer(path).cloned().unwrap_or_default();
        ensure!(field("/conditions/0/type") == "Ready", "{device:#}");
        ensure!(field("/conditions/0/status") == "True", "{device:#}");
        let data = json!({
            "computeDomain": uid,
            "clique": "8f4b8d52-3a1e-4c07-9d2f-6b1f0c9a7e11.7",
            "channel": 0,
        });
        ensure!(field("/data") == data, "{device:#}");
        Ok(())
    })
}
