//! The chart is not uninstalled while `ComputeDomains` or pods with GPUs need it: helm names them, and nothing changes.
//! Afterwards it is uninstalled completely except for the `CustomResourceDefinition`, and can be installed again.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::gpus::{ReleaseGpus, claim_template, wait_until_unpublished};
use cluster_tests::node_pod::NodePod;
use cluster_tests::release::{
    CHART, helm, helm_refuses, install, revision, roll_back, upgrade, values,
};
use cluster_tests::{Cluster, Namespace};

const HOOKS: &str = "jobs,serviceaccounts,clusterroles,clusterrolebindings";

/// Objects left by the Jobs of helm's hooks.
fn traces_of_hooks(cluster: &Cluster) -> Result<String> {
    let names = cluster.kubectl(&["get", HOOKS, "-A", "-o", "name"])?;
    let of_hooks = |name: &&str| name.contains("imex-dra-guard") || name.contains("imex-dra-crds");
    Ok(names.lines().filter(of_hooks).collect::<Vec<_>>().join(" "))
}

// req: CHART-12, CHART-13, CHART-14
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_chart_is_uninstalled_after_the_last_domain_and_installed_again() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "uninstall")?;
    // An earlier test may have left it true.
    upgrade(&cluster, &["--set=guard.override=false"])?;
    let traces = traces_of_hooks(&cluster)?;
    ensure!(traces.is_empty(), "left by an upgrade: {traces}");
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;
    let plugin = NodePod::plugin(&cluster, 1)?;

    let off = "--set=resources.computeDomains.enabled=false,resources.gpus.enabled=true";
    let output = helm_refuses(&cluster, "upgrade", &[CHART, "--reuse-values", off])?;
    ensure!(
        output.contains("but ComputeDomains exist (uninstall/train)"),
        "helm printed: {output}"
    );
    let output = helm_refuses(&cluster, "uninstall", &["--wait", "--timeout=120s"])?;
    ensure!(
        output.contains("1 ComputeDomain would be left without a driver (uninstall/train)"),
        "helm printed: {output}"
    );
    ensure!(plugin.is_ready()?, "the plugin is not ready");
    // Helm has recorded the start of the uninstallation. A rollback to the same revision resets that.
    roll_back(&cluster, &revision(&cluster)?)?;
    let status = helm(&cluster, "status", &["-o", "json"])?;
    ensure!(status.contains("\"status\":\"deployed\""), "{status}");

    let values = values(&cluster)?;
    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    domain.delete(&cluster, &namespace)?;
    helm(&cluster, "uninstall", &["--wait", "--timeout=120s"])?;
    let traces = traces_of_hooks(&cluster)?;
    ensure!(traces.is_empty(), "left: {traces}");
    let crd = cluster.kubectl(&["get", "crd", fixtures::DOMAINS, "-o", "name"])?;
    ensure!(!crd.is_empty(), "the CustomResourceDefinition is deleted");

    install(&cluster, &values)?;
    TestDomain::create(&cluster, &namespace, "again", "Single")?.delete(&cluster, &namespace)
}

// req: CHART-25
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_gpu_plugin_stays_until_the_last_pod_with_gpus_has_ended() -> Result<()> {
    let cluster = Cluster::connect()?;
    fixtures::wait_for_domains_of_ended_tests(&cluster)?;
    wait_until_unpublished(&cluster)?;
    upgrade(&cluster, &["--set=guard.override=false"])?;
    let (without_gpus, values) = (revision(&cluster)?, values(&cluster)?);
    let gpus = ReleaseGpus::enable(&cluster, true)?;
    let with_gpus = revision(&cluster)?;
    let namespace = Namespace::create(&cluster, "uninstall-gpus")?;
    let template = claim_template(&namespace, "gpu", "gpu.nvidia.com", 1);
    cluster.apply(&template.to_string())?;
    fixtures::create_pod_of_template(&cluster, &namespace, "worker", 1, "gpu")?;
    fixtures::wait_until_running(&cluster, &namespace, "worker")?;

    let off = "--set=resources.gpus.enabled=false";
    let off = [CHART, "--reuse-values", "--timeout=120s", off];
    for (verb, args) in [
        ("upgrade", &off[..]),
        ("rollback", &[&without_gpus, "--timeout=120s"]),
        ("uninstall", &["--timeout=120s"]),
    ] {
        let output = helm_refuses(&cluster, verb, args)?;
        for part in [
            format!("{verb} refused: 1 pod with GPUs would never terminate"),
            "(uninstall-gpus/worker); delete".to_owned(),
        ] {
            ensure!(output.contains(&part), "helm {verb} printed: {output}");
        }
        ensure!(gpus.containers()? == ["compute-domains", "gpus"], "{verb}");
    }
    // Helm has recorded the start of the uninstallation.
    roll_back(&cluster, &with_gpus)?;

    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    helm(&cluster, "uninstall", &["--wait", "--timeout=120s"])?;
    install(&cluster, &values)
}
