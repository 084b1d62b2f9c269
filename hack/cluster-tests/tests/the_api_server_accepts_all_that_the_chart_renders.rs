//! Every object that the chart can render is held against the API server's schemas and checks, unknown fields
//! included, in a dry run.

use anyhow::{Result, ensure};
use cluster_tests::release::CHART;
use cluster_tests::{Cluster, Namespace};

/// Renders the chart under names that no release of it has, and has the objects created in a dry run.
fn create_dry(cluster: &Cluster, namespace: &Namespace, options: &[&str]) -> Result<()> {
    let name = format!("--namespace={}", namespace.name);
    let template = [
        "helm",
        "template",
        "dry",
        CHART,
        &name,
        "--set=nameOverride=dry",
    ];
    let classes = "--set=featureGates.HostManagedIMEX=true";
    let rendered = cluster.script(&[&template[..], &[classes], options].concat(), "")?;
    let objects = rendered.matches("\nkind: ").count();
    ensure!(objects > 25, "only {objects} objects are rendered");
    // apply: DeviceClasses have the same names as those of the release.
    let apply = [
        "kubectl",
        "apply",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
    ];
    let applied = cluster.script(&apply, &rendered)?;
    let accepted = applied
        .lines()
        .filter(|line| line.contains("(server dry run)"));
    ensure!(
        accepted.count() == objects,
        "of {objects} objects: {applied}"
    );
    Ok(())
}

// req: CHART-9
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn objects_of_the_defaults_and_of_every_option_are_valid() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "dry-run")?;
    create_dry(&cluster, &namespace, &[])?;
    let everything = format!("{CHART}/../golden/everything.values.yaml");
    let here = format!("--set=namespaceOverride={}", namespace.name);
    let options = [
        "-f",
        &everything,
        &here,
        "--set=aggregatedClusterRoles=true",
        "--set=nameOverride=dry",
    ];
    create_dry(&cluster, &namespace, &options)?;
    let unprivileged = format!("{CHART}/unprivileged.values.yaml");
    create_dry(&cluster, &namespace, &["-f", &unprivileged])?;
    let without_pods = "--set=kubeletPlugin.hostService.enabled=true";
    create_dry(&cluster, &namespace, &[without_pods])
}
