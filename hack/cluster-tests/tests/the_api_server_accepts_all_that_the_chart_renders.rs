//! The API server validates every object that the chart can render in a dry run, unknown fields included.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::release::CHART;
use cluster_tests::{Cluster, Namespace};

/// The Prometheus operator's kinds, until this is dropped.
struct MonitoringKinds(Cluster);

impl MonitoringKinds {
    const CRDS: &str = include_str!("fixtures/monitoring-crds.yaml");

    fn define(cluster: &Cluster) -> Result<Self> {
        let defined = Self(cluster.clone());
        cluster.apply(Self::CRDS)?;
        let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
        let names = [
            "crd/podmonitors.monitoring.coreos.com",
            "crd/prometheusrules.monitoring.coreos.com",
        ];
        cluster.kubectl(&[&wait[..], &names].concat())?;
        Ok(defined)
    }
}

impl Drop for MonitoringKinds {
    fn drop(&mut self) {
        let delete = ["kubectl", "delete", "-f", "-", "--timeout=60s"];
        drop(self.0.script(&delete, Self::CRDS)); // ignored: the next run applies them again
    }
}

/// Renders the chart with names that differ from the installed release's.
fn render(cluster: &Cluster, namespace: &Namespace, options: &[&str]) -> Result<String> {
    let name = format!("--namespace={}", namespace.name);
    let template = [
        "helm",
        "template",
        "dry",
        CHART,
        &name,
        "--set=nameOverride=dry",
    ];
    cluster.script(&[&template[..], options].concat(), "")
}

/// Creates the objects in a dry run.
fn create_dry(cluster: &Cluster, rendered: &str) -> Result<()> {
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
    let applied = cluster.script(&apply, rendered)?;
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
    let _kinds = MonitoringKinds::define(&cluster)?;
    let host_managed = "--set=featureGates.HostManagedIMEX=true";
    for mode in [&[][..], &[host_managed]] {
        create_dry(&cluster, &render(&cluster, &namespace, mode)?)?;
    }
    let everything = format!("{CHART}/../golden/everything.values.yaml");
    let here = format!("--set=namespaceOverride={}", namespace.name);
    let options = [
        "-f",
        &everything,
        &here,
        "--set=aggregatedClusterRoles=true",
        "--set=nameOverride=dry",
    ];
    let everything = render(&cluster, &namespace, &options)?;
    create_dry(&cluster, &everything)?;
    for (right, wrong) in [
        ("honorLabels", "honourLabels"),
        ("\n      for", "\n      since"),
    ] {
        let misspelt = everything.replacen(&format!("{right}: "), &format!("{wrong}: "), 1);
        let err = create_dry(&cluster, &misspelt).err();
        let err = err.with_context(|| format!("{wrong} is accepted"))?;
        let text = format!("{err:#}");
        ensure!(
            text.contains("unknown field") && text.contains(wrong.trim()),
            "{text}"
        );
    }
    for values in ["unprivileged", "unprivileged-cdi"] {
        let values = format!("{CHART}/{values}.values.yaml");
        create_dry(
            &cluster,
            &render(&cluster, &namespace, &["-f", &values, host_managed])?,
        )?;
    }
    let without_pods = "--set=kubeletPlugin.hostService.enabled=true";
    create_dry(
        &cluster,
        &render(&cluster, &namespace, &[without_pods, host_managed])?,
    )
}
