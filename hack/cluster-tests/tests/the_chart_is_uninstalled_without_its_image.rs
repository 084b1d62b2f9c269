//! If no node can pull the chart's image, Helm fails within a minute. A running release keeps running. One that never
//! ran is uninstalled with the command in its Job; then the commands of `docs/operation.md` leave nothing in the cluster.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures;
use cluster_tests::node_pod::{NAMESPACE, NodePod};
use cluster_tests::release::{
    CHART, helm, helm_refuses, install, objects_of_driver, revision, roll_back, upgrade, values,
};
use cluster_tests::{Cluster, wait_until};

const ABSENT: &str = "--set=image.tag=absent";
/// Longer than the limit of a Job.
const TIMEOUT: &str = "--timeout=120s";

/// Checks that `helm VERB` fails within a minute and names the Job that did not start.
fn job_fails(cluster: &Cluster, verb: &str, args: &[&str], job: &str) -> Result<()> {
    let begun = Instant::now();
    let output = helm_refuses(cluster, verb, args)?;
    let took = begun.elapsed();
    let named = format!("Job/{NAMESPACE}/{job} not ready. status: Failed");
    ensure!(output.contains(&named), "helm {verb} printed: {output}");
    let minute = Duration::from_secs(60);
    ensure!(took < minute, "helm {verb} took {took:?}");
    Ok(())
}

// req: CHART-22
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_release_that_was_upgraded_to_an_absent_image_is_rolled_back() -> Result<()> {
    let cluster = Cluster::connect()?;
    upgrade(&cluster, &["--set=guard.override=false"])?;
    let (deployed, given) = (revision(&cluster)?, values(&cluster)?);
    let plugin = NodePod::plugin(&cluster, 1)?;

    let upgrade = [CHART, "--reuse-values", TIMEOUT, ABSENT];
    job_fails(&cluster, "upgrade", &upgrade, "imex-dra-guard")?;
    // Helm runs the Job of the last revision.
    let job = "imex-dra-guard-uninstall";
    job_fails(&cluster, "uninstall", &[TIMEOUT], job)?;

    roll_back(&cluster, &deployed)?;
    let now = values(&cluster)?;
    ensure!(now == given, "the values are {now}, not {given}");
    let now = NodePod::plugin(&cluster, 1)?;
    ensure!(now.name == plugin.name, "{} is a new plugin", now.name);
    Ok(())
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_release_whose_image_is_missing_is_upgraded_to_another_one() -> Result<()> {
    let cluster = Cluster::connect()?;
    let plugin = NodePod::plugin(&cluster, 1)?;
    let gone = [CHART, "--reuse-values", "--no-hooks", ABSENT];
    helm(&cluster, "upgrade", &gone)?;
    let deployed = revision(&cluster)?;
    let job = "imex-dra-guard-uninstall";
    job_fails(&cluster, "uninstall", &[TIMEOUT], job)?;

    let another = [CHART, "--reuse-values", "--set=image.tag="];
    let output = helm_refuses(&cluster, "upgrade", &another)?;
    ensure!(
        output.contains("has no deployed releases"),
        "helm printed: {output}"
    );
    helm(&cluster, "rollback", &[&deployed, "--no-hooks"])?;
    upgrade(&cluster, &["--set=image.tag="])?;
    ensure!(
        plugin.is_ready()?,
        "the plugin was replaced or is not ready"
    );
    Ok(())
}

// req: CHART-22
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_release_that_never_ran_is_uninstalled_with_the_command_in_its_job() -> Result<()> {
    let cluster = Cluster::connect()?;
    let values = values(&cluster)?;
    fixtures::wait_for_domains_of_ended_tests(&cluster)?;
    helm(&cluster, "uninstall", &["--wait", TIMEOUT])?;

    let gate = "--set=featureGates.HostManagedIMEX=true";
    let install_absent = [CHART, TIMEOUT, gate, ABSENT];
    job_fails(&cluster, "install", &install_absent, "imex-dra-guard")?;
    let job = "imex-dra-guard-uninstall";
    job_fails(&cluster, "uninstall", &[TIMEOUT], job)?;
    let way_out = cluster.json(&["get", "job", job, "-n", NAMESPACE])?;
    let way_out = way_out.pointer("/metadata/annotations/imex-dra~1if-it-cannot-start");
    let way_out = way_out.and_then(|text| text.as_str()).context("no text")?;
    let (_, command) = way_out.rsplit_once(": ").context("no command")?;
    let words: Vec<&str> = command.split(' ').collect();
    ensure!(words.first() == Some(&"helm"), "the Job has: {way_out}");
    cluster.script(&words, "")?;

    for command in [
        "delete namespace imex-dra",
        "delete clusterroles,clusterrolebindings -l app.kubernetes.io/instance=imex-dra",
        "delete crd computedomains.resource.nvidia.com computedomaincliques.resource.nvidia.com",
    ] {
        cluster.kubectl(&command.split(' ').collect::<Vec<_>>())?;
    }
    // kubelet delays deleting slices of a removed driver.
    wait_until(&cluster, "nothing is left of the driver", || {
        let left = objects_of_driver(&cluster)?;
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })?;
    cluster.kubectl(&["create", "namespace", NAMESPACE])?;
    install(&cluster, &values)
}
