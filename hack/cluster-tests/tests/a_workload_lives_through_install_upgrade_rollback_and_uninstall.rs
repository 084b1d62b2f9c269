//! A workload with a channel runs during installation, upgrade, rollback and uninstallation of the chart: its container
//! is not affected, and pods that start meanwhile get their channels. In the end only the `CustomResourceDefinition` is
//! left in the cluster, and on the nodes an empty checkpoint with its lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use cluster_tests::channels::CHANNELS;
use cluster_tests::fixtures::{self, CHANNEL_PATH, ChartValue, TestDomain};
use cluster_tests::node_pod::{NAMESPACE, NodePod};
use cluster_tests::release::{
    helm, helm_refuses, install, objects_of_driver, revision, roll_back, upgrade, values,
};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::Value;

const WAIT: [&str; 2] = ["--wait", "--timeout=120s"];
const ISOLATION: &str = "resources.computeDomains.imex.isolation";

/// A pod on node 1 with a channel; its container must never restart.
struct Workload {
    cluster: Cluster,
    namespace: String,
    container: Value,
    channels: String,
}

impl Workload {
    const POD: &str = "worker";

    fn run(cluster: &Cluster, namespace: &Namespace, domain: &TestDomain) -> Result<Self> {
        fixtures::run_pod(cluster, namespace, Self::POD, 1, Some(domain))?;
        let mut workload = Self {
            cluster: cluster.clone(),
            namespace: namespace.name.clone(),
            container: Value::Null,
            channels: String::new(),
        };
        workload.container = workload.container()?;
        workload.channels = workload.channels()?;
        Ok(workload)
    }

    /// kubelet's status of the container: its id, start time and number of restarts.
    fn container(&self) -> Result<Value> {
        let get = ["get", "pod", Self::POD, "-n", &self.namespace];
        let pod = self.cluster.json(&get)?;
        let status = pod.pointer("/status/containerStatuses/0");
        let status = status.context("it has no container")?;
        // Without the health of its device, which is unknown while no plugin reports it.
        let parts = ["containerID", "restartCount", "state"];
        Ok(parts.iter().map(|part| status[*part].clone()).collect())
    }

    /// The output of `ls -l` for its channels, with their device numbers.
    fn channels(&self) -> Result<String> {
        let look = format!("cd {CHANNELS} && ls -l channel*");
        let (found, text) = self.cluster.in_pod(&self.namespace, Self::POD, &look)?;
        ensure!(found, "it has no channel: {text}");
        Ok(text)
    }

    /// Checks that the container still has its channel and has not restarted.
    fn ensure_unaffected(&self, after: &str) -> Result<()> {
        let channels = self.channels().context(format!("after {after}"))?;
        let then = &self.channels;
        ensure!(channels == *then, "after {after}: {channels}, not {then}");
        let (now, then) = (self.container()?, &self.container);
        ensure!(now == *then, "after {after}: {now}, not {then}");
        Ok(())
    }
}

/// Waits until another pod of the plugin has replaced the previous one on this node.
fn another_plugin(cluster: &Cluster, node: u8, before: &NodePod) -> Result<NodePod> {
    wait_until(cluster, "the node has only the new plugin", || {
        let plugin = NodePod::plugin(cluster, node)?;
        ensure!(plugin.name != before.name, "{} still exists", plugin.name);
        Ok(plugin)
    })
}

/// Runs pods on node 2 that check their channel and exit, one after another, while `meanwhile` runs. Returns
/// the number of pods.
fn short_pods(
    cluster: &Cluster,
    namespace: &Namespace,
    domain: &TestDomain,
    prefix: &str,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<u32> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pods = scope.spawn(|| -> Result<u32> {
            let mut pods = 0;
            while !over.load(Ordering::Relaxed) {
                short_pod(cluster, namespace, domain, &format!("{prefix}-{pods}"))?;
                pods += 1;
            }
            Ok(pods)
        });
        let outcome = meanwhile();
        over.store(true, Ordering::Relaxed);
        let pods = pods.join().map_err(|_| anyhow!("a panic"))?;
        outcome.and(pods)
    })
}

fn short_pod(
    cluster: &Cluster,
    namespace: &Namespace,
    domain: &TestDomain,
    name: &str,
) -> Result<()> {
    let looks = format!("test -c {CHANNEL_PATH}");
    fixtures::create_pod_that(cluster, namespace, name, 2, domain, &looks)?;
    wait_until(cluster, &format!("{name} has ended"), || {
        let get = ["get", "pod", name, "-n", &namespace.name];
        let phase = cluster.kubectl(&[&get[..], &["-o", "jsonpath={.status.phase}"]].concat())?;
        let events = || cluster.events_about(&namespace.name, name);
        // No need to wait for a failed pod.
        match phase.as_str() {
            "Succeeded" => Ok(Ok(())),
            "Failed" => Ok(Err(anyhow!("{name} has failed: {:?}", events()?))),
            phase => bail!("its phase is {phase:?}; {:?}", events()?),
        }
    })??;
    let events = cluster.events_about(&namespace.name, name)?;
    let failed = events.iter().find(|it| it.starts_with("FailedPrepare"));
    ensure!(failed.is_none(), "{name} failed: {failed:?}");
    let delete = ["delete", "pod", name, "-n", &namespace.name, "--wait"];
    cluster.kubectl(&delete).map(drop)
}

// req: CHART-16
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn an_upgrade_and_a_rollback_affect_no_pods() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "steps")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let workload = Workload::run(&cluster, &namespace, &domain)?;
    let (former, given) = (revision(&cluster)?, values(&cluster)?);
    let plugin = |node| NodePod::plugin(&cluster, node);
    let (first, second) = (plugin(1)?, plugin(2)?);

    let pods = short_pods(&cluster, &namespace, &domain, "upgrade", || {
        upgrade(&cluster, &["--set=logVerbosity=5"])
    })?;
    println!("{pods} pods started and ended during the upgrade");
    workload.ensure_unaffected("the upgrade")?;
    let first = another_plugin(&cluster, 1, &first)?;
    let second = another_plugin(&cluster, 2, &second)?;
    ensure!(values(&cluster)? != given, "the upgrade changed nothing");

    let pods = short_pods(&cluster, &namespace, &domain, "rollback", || {
        roll_back(&cluster, &former)
    })?;
    println!("{pods} pods started and ended during the rollback to revision {former}");
    workload.ensure_unaffected("the rollback")?;
    another_plugin(&cluster, 1, &first)?;
    another_plugin(&cluster, 2, &second)?;
    let now = values(&cluster)?;
    ensure!(now == given, "the values are {now}, not {given}");
    Ok(())
}

// req: CHART-13
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_rollback_to_isolation_none_waits_for_the_last_channel() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "back-to-none")?;
    // An earlier test may have left it true.
    upgrade(&cluster, &["--set=guard.override=false"])?;
    let (with_none, given) = (revision(&cluster)?, values(&cluster)?);
    let _isolation = ChartValue::set(&cluster, ISOLATION, "channel")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let workload = Workload::run(&cluster, &namespace, &domain)?;
    let plugin = NodePod::plugin(&cluster, 1)?;

    let back = [&[with_none.as_str()][..], &WAIT].concat();
    let printed = helm_refuses(&cluster, "rollback", &back)?;
    let words = "1 ComputeDomain would lose an isolated IMEX channel with imex.isolation=none (back-to-none/train)";
    ensure!(printed.contains(words), "helm printed: {printed}");
    let now = NodePod::plugin(&cluster, 1)?;
    ensure!(now.name == plugin.name, "{} is a new plugin", now.name);
    workload.ensure_unaffected("a refused rollback")?;

    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    domain.delete(&cluster, &namespace)?;
    helm(&cluster, "rollback", &back)?;
    let now = values(&cluster)?;
    ensure!(now == given, "the values are {now}, not {given}");
    // Helm compared with the refused rollback: see docs/operation.md.
    let kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding";
    let delete = ["delete", kinds, "resourceclaims-policy-imex-dra"];
    cluster.kubectl(&delete).map(drop)
}

/// The files in the plugin's directories on the node.
fn files(cluster: &Cluster, node: u8) -> Result<String> {
    let driver = "compute-domain.nvidia.com";
    let list = format!(
        "cd /var/lib/kubelet && ls -A plugins/{driver}; ls -A plugins_registry | grep {driver}; \
         ls -A /var/run/cdi | grep compute-domain; cat plugins/{driver}/checkpoint.json | grep -o preparedClaims; true"
    );
    cluster.on_node(node, &list)
}

// req: CHART-12, CHART-13, CHART-14
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn an_uninstallation_affects_no_pods_and_leaves_the_crd() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "last-steps")?;
    upgrade(&cluster, &["--set=guard.override=false"])?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let workload = Workload::run(&cluster, &namespace, &domain)?;
    let claim = fixtures::only_claim_uid(&cluster, &namespace)?;
    let values = values(&cluster)?;

    let printed = helm_refuses(&cluster, "uninstall", &WAIT)?;
    ensure!(
        printed.contains("(last-steps/train)"),
        "helm printed: {printed}"
    );
    workload.ensure_unaffected("a refused uninstallation")?;
    let knowingly = [&["--no-hooks"][..], &WAIT].concat();
    helm(&cluster, "uninstall", &knowingly)?;
    wait_until(&cluster, "no program of the chart runs", || {
        let running = "--field-selector=status.phase=Running";
        let pods = cluster.items(&["pods", "-n", NAMESPACE, running])?;
        ensure!(pods.is_empty(), "there are {}", pods.len());
        Ok(())
    })?;
    workload.ensure_unaffected("the uninstallation")?;

    install(&cluster, &values)?;
    workload.ensure_unaffected("the installation")?;
    let show = ["exec", "-n", NAMESPACE, &NodePod::plugin(&cluster, 1)?.name];
    let show = [&show[..], &["--", "cdi-gen", "checkpoint", "show"]].concat();
    let known = cluster.kubectl(&show)?;
    ensure!(known.contains(&claim), "no record of {claim}: {known}");
    let traces = fixtures::traces_on_node(&cluster, 1, &claim)?;
    ensure!(traces.lines().count() == 2, "of the claim: {traces:?}");
    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    let traces = fixtures::traces_on_node(&cluster, 1, &claim)?;
    ensure!(traces.is_empty(), "left of the claim: {traces}");
    domain.delete(&cluster, &namespace)?;
    // Isolation channel of an earlier test shared the devices; plugins check after a minute or two which claims have them.
    for node in [1, 2] {
        wait_until(&cluster, "the node's device is no longer shared", || {
            let files = files(&cluster, node)?;
            ensure!(!files.contains("device-is-shared"), "{files}");
            Ok(())
        })?;
    }

    helm(&cluster, "uninstall", &WAIT)?;
    // Waits for the garbage collector, and for kubelet, which delays deleting slices of a removed driver.
    wait_until(&cluster, "only the CRDs are left in the cluster", || {
        let left = objects_of_driver(&cluster)?;
        // The namespace of hack/install.sh, not of the chart, with the objects that Kubernetes creates in each.
        let namespace = format!("Namespace/{NAMESPACE}");
        // Leases: the last leader has released the controllers' Lease and may not delete it. Those of channels
        // are kept for ten minutes after their last use, here by another test; that of groups' channels is kept
        // permanently.
        let stays = [
            "CustomResourceDefinition/computedomaincliques.resource.nvidia.com",
            "CustomResourceDefinition/computedomains.resource.nvidia.com",
            "Lease/imex-dra-controller",
        ];
        let keeps = |it: &&String| **it == namespace || it.starts_with("Lease/imex-channel");
        let left: Vec<_> = left.iter().filter(|it| !keeps(it)).collect();
        ensure!(left == stays, "left: {left:?}");
        Ok(())
    })?;
    let on_worker_node = files(&cluster, 1)?;
    let empty = "checkpoint.json\npu.lock\n";
    ensure!(on_worker_node == empty, "on node 1: {on_worker_node:?}");
    // No checkpoint if the node has never had a claim.
    let on_other = files(&cluster, 2)?;
    ensure!(
        [empty, "pu.lock\n"].contains(&&*on_other),
        "on node 2: {on_other:?}"
    );
    install(&cluster, &values)
}
