//! The chart is switched from host-managed to driver-managed and back when no ComputeDomain is left. Before and after
//! each switch, the pods of a ComputeDomain get its channel on both nodes. While a ComputeDomain exists, Helm refuses
//! the other mode and changes nothing, at an upgrade, a rollback, and an installation after
//! `helm uninstall --no-hooks`.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, ChartValue, TestDomain};
use cluster_tests::node_pod::NAMESPACE;
use cluster_tests::release::{
    CHART, RELEASE, helm, helm_refuses, install, revision, roll_back, upgrade, values,
};
use cluster_tests::{Cluster, Namespace, channels, imex_members};
use serde_json::{Value, json};

/// Who runs `nvidia-imex`.
#[derive(Clone, Copy, Debug)]
enum Mode {
    HostManaged,
    DriverManaged,
}

impl Mode {
    fn is_host_managed(self) -> bool {
        matches!(self, Self::HostManaged)
    }

    fn gate(self) -> String {
        let is_on = self.is_host_managed();
        format!("--set=featureGates.HostManagedIMEX={is_on}")
    }

    /// These values of the chart, with this mode.
    fn in_values(self, values: &str) -> Result<String> {
        let mut values: Value = serde_json::from_str(values)?;
        let gates = values.get_mut("featureGates").context("no gates")?;
        gates["HostManagedIMEX"] = json!(self.is_host_managed());
        Ok(values.to_string())
    }
}

/// A ComputeDomain with a pod on each node.
struct Workload<'a> {
    cluster: &'a Cluster,
    namespace: Namespace,
    domain: TestDomain,
    containers: String,
}

impl<'a> Workload<'a> {
    const PODS: [(&'static str, u8); 2] = [("first", 1), ("second", 2)];

    fn run(cluster: &'a Cluster, namespace: &str) -> Result<Self> {
        let namespace = Namespace::create(cluster, namespace)?;
        let domain = TestDomain::create(cluster, &namespace, "train", "Single")?;
        for (pod, node) in Self::PODS {
            fixtures::run_pod(cluster, &namespace, pod, node, Some(&domain))?;
        }
        let mut workload = Self {
            cluster,
            namespace,
            domain,
            containers: String::new(),
        };
        workload.containers = workload.containers()?;
        workload.ensure_unaffected("its start")?;
        Ok(workload)
    }

    /// The id and the number of restarts of each container.
    fn containers(&self) -> Result<String> {
        let each = "-o=jsonpath={range .items[*].status.containerStatuses[0]}{.containerID} {.restartCount} {end}";
        let get = ["get", "pods", "-n", &self.namespace.name, each];
        self.cluster.kubectl(&get)
    }

    /// Checks that no container has restarted, and that each sees the channel of the ComputeDomain.
    fn ensure_unaffected(&self, after: &str) -> Result<()> {
        let (now, then) = (self.containers()?, &self.containers);
        ensure!(now == *then, "after {after}: {now}, not {then}");
        let channel = channels::of_domain(self.cluster, &self.namespace, "train")?;
        for (pod, _) in Self::PODS {
            channels::sees_only(self.cluster, &self.namespace, pod, channel)
                .with_context(|| format!("after {after}"))?;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        let delete = ["delete", "pods", "--all", "--wait", "-n"];
        self.cluster
            .kubectl(&[&delete[..], &[&self.namespace.name]].concat())?;
        self.domain.delete(self.cluster, &self.namespace)
    }
}

/// The release's workloads: each object with its UID and generation.
fn programs(cluster: &Cluster) -> Result<String> {
    let each = "-o=jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.generation}, {end}";
    let get = ["get", "deployments,daemonsets", "-n", NAMESPACE, each];
    cluster.kubectl(&get)
}

fn ensure_named(output: &str, workload: &Workload<'_>) -> Result<()> {
    let words = format!(
        "1 ComputeDomain would be left without nvidia-imex: the new mode changes who runs nvidia-imex, the hosts or the driver ({}/train)",
        workload.namespace.name
    );
    ensure!(output.contains(&words), "helm printed: {output}");
    Ok(())
}

/// Checks that these are refused: an upgrade from `from` to `to`, a rollback to the revision `former`, which had that
/// mode, and an installation after an uninstallation without hooks. Then restores the release.
fn is_refused(
    workload: &Workload<'_>,
    (from, to): (Mode, Mode),
    former: Option<&str>,
) -> Result<()> {
    let cluster = workload.cluster;
    let (given, deployed, before) = (values(cluster)?, revision(cluster)?, programs(cluster)?);
    let options = [CHART, "--reuse-values", "--timeout=120s", &to.gate()];
    let output = helm_refuses(cluster, "upgrade", &options)?;
    ensure_named(&output, workload)?;
    let now = programs(cluster)?;
    ensure!(now == before, "the upgrade changed {before} to {now}");
    workload.ensure_unaffected("a refused upgrade")?;
    if let Some(former) = former {
        let output = helm_refuses(cluster, "rollback", &[former, "--timeout=120s"])?;
        ensure_named(&output, workload)?;
        workload.ensure_unaffected("a refused rollback")?;
    }
    // Helm would uninstall the objects of the last revision, which is the refused one.
    roll_back(cluster, &deployed)?;
    let now = programs(cluster)?;
    ensure!(now == before, "the rollback changed {before} to {now}");

    let knowingly = ["--no-hooks", "--wait", "--timeout=120s"];
    helm(cluster, "uninstall", &knowingly)?;
    let refused = install(cluster, &to.in_values(&given)?).err();
    let refused = refused.context("the installation has not failed")?;
    ensure_named(&format!("{refused:#}"), workload)?;
    let now = programs(cluster)?;
    ensure!(now.is_empty(), "the installation created {now}");
    workload.ensure_unaffected("a refused installation")?;

    // Helm has recorded the refused installation as a failed release.
    let command = ["helm", "upgrade", RELEASE, CHART, "--namespace=imex-dra"];
    let options = ["--wait", "--timeout=120s", "--values=-"];
    cluster.script(&[&command[..], &options].concat(), &from.in_values(&given)?)?;
    workload.ensure_unaffected("the former mode's installation")
}

/// The steps of `docs/modes.md`, on nodes without pods that have a channel. A host must run only one `nvidia-imex`.
fn switch(cluster: &Cluster, to: Mode) -> Result<()> {
    match to {
        Mode::DriverManaged => {
            fixtures::let_hosts_run_imex(false)?;
            upgrade(cluster, &[&to.gate()])?;
            imex_members::wait_until_ready(cluster).map(drop)
        }
        Mode::HostManaged => {
            upgrade(cluster, &[&to.gate()])?;
            fixtures::let_hosts_run_imex(true)
        }
    }
}

// req: MODE-13
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn both_modes_serve_pods_after_a_switch_and_refuse_the_other_mode_meanwhile() -> Result<()> {
    let cluster = Cluster::connect()?;
    // The same in both modes.
    let isolation = "resources.computeDomains.imex.isolation";
    let _isolation = ChartValue::set(&cluster, isolation, "channel")?;

    let (mut mode, mut former) = (Mode::HostManaged, None);
    for (namespace, next) in [
        ("hosts-before", Mode::DriverManaged),
        ("driver", Mode::HostManaged),
    ] {
        let workload = Workload::run(&cluster, namespace)?;
        is_refused(&workload, (mode, next), former.as_deref())
            .with_context(|| format!("{mode:?} to {next:?}"))?;
        workload.end()?;
        former = Some(revision(&cluster)?);
        switch(&cluster, next).with_context(|| format!("{mode:?} to {next:?}"))?;
        mode = next;
    }
    Workload::run(&cluster, "hosts-after")?.end()
}
