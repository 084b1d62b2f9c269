//! With the chart's `unprivileged.values.yaml`, the plugin is unprivileged and has no capabilities, and still gives pods
//! their channels. With `unprivileged-cdi.values.yaml`, it may open the device nodes of a CDI spec of its node.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::node_pod::{NAMESPACE, NodePod};
use cluster_tests::release::{CHART, upgrade};
use cluster_tests::{Cluster, Injector, Namespace};
use serde_json::json;

const CONTAINER: &str = "kubeletPlugin.containers.computeDomains";
const NODES: [u8; 2] = [1, 2];
/// With the numbers of NVIDIA's driver. There is no driver, so `open` fails with ENXIO if the device cgroup permits it.
const DEVICE: &str = "/dev/nvidiactl";
const NO_DRIVER: &str = "No such device or address";
/// A CDI spec on each node.
const SPEC: &str = "/etc/cdi/nvidia.yaml";

/// Resets the chart's values when dropped.
struct Privileged(Cluster);

impl Drop for Privileged {
    fn drop(&mut self) {
        let context = format!("--set-json={CONTAINER}.securityContext={{\"privileged\":true}}");
        let env = format!("--set-json={CONTAINER}.env=[]");
        let annotation = "cdi-devices\\.noderesource\\.dev/container\\.compute-domains";
        let annotation = format!("--set=kubeletPlugin.podAnnotations.{annotation}=null");
        // ignored: if it fails, the next test fails, too
        drop(upgrade(
            &self.0,
            &["--set=guard.override=true", &context, &env, &annotation],
        ));
    }
}

/// Upgrades the release with values files of the chart.
fn upgrade_with(cluster: &Cluster, files: &[&str]) -> Result<Privileged> {
    let back = Privileged(cluster.clone());
    let files = files
        .iter()
        .map(|file| format!("--values={CHART}/{file}.values.yaml"));
    let files: Vec<String> = files.collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    upgrade(cluster, &files)?;
    Ok(back)
}

/// Checks that the plugins' processes have no capabilities.
fn has_no_capability(cluster: &Cluster) -> Result<()> {
    let capabilities = cluster.on_node(
        1,
        "for it in /proc/[0-9]*; do case $(tr '\\0' ' ' <$it/cmdline 2>/dev/null) in compute-domain-kubelet-plugin*) grep CapEff $it/status;; esac; done",
    )?;
    // This finds the plugins of both nodes: nodes are namespaces of one machine.
    let mut sets = capabilities.lines();
    ensure!(
        !capabilities.is_empty() && sets.all(|set| set.ends_with("\t0000000000000000")),
        "{capabilities}"
    );
    Ok(())
}

/// Checks that a domain's pod gets its channel and releases it.
fn prepares(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let domain = TestDomain::create(cluster, namespace, "train", "Single")?;
    fixtures::run_pod(cluster, namespace, "worker", 1, Some(&domain))?;
    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    domain.delete(cluster, namespace)
}

// req: CHART-17
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_gets_its_channel_and_releases_it() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "unprivileged")?;
    let _back = upgrade_with(&cluster, &["unprivileged"])?;
    has_no_capability(&cluster)?;
    prepares(&cluster, &namespace)
}

/// Gives each node NVIDIA's CDI spec and a plugin like containerd's `device-injector`, until this is dropped.
struct CdiHosts {
    cluster: Cluster,
    injectors: Vec<Injector>,
}

impl CdiHosts {
    fn set_up(cluster: &Cluster) -> Result<Self> {
        let mut hosts = Self {
            cluster: cluster.clone(),
            injectors: Vec::new(),
        };
        let node = json!({"path": DEVICE, "type": "c", "major": 195, "minor": 255});
        let device = json!({"name": "all", "containerEdits": {"deviceNodes": [node]}});
        let spec = json!({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]});
        for node in NODES {
            cluster.on_node(node, &format!("mkdir -p /etc/cdi && echo '{spec}' >{SPEC}"))?;
            let program = env!("CARGO_BIN_EXE_injector");
            let injector = Injector::start(cluster, program, node, 10)?;
            hosts.injectors.push(injector);
        }
        Ok(hosts)
    }
}

impl Drop for CdiHosts {
    fn drop(&mut self) {
        for node in NODES {
            // ignored: it ends with the cluster
            drop(self.cluster.on_node(node, &format!("rm -f {SPEC}")));
        }
    }
}

/// The result of `open` on the device in the plugin's container.
fn opening(cluster: &Cluster, node: u8) -> Result<String> {
    let pod = NodePod::plugin(cluster, node)?.name;
    // The image has no shell, but this program, which opens any file.
    let open = ["cdi-gen", "validate", DEVICE];
    let exec = ["exec", "-n", NAMESPACE, &pod, "--"];
    let opened = cluster.kubectl(&[&exec[..], &open].concat()).err();
    Ok(opened.map_or_else(|| "opened".to_owned(), |err| format!("{err:#}")))
}

// req: CHART-17
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn it_may_open_the_device_nodes_of_a_cdi_spec_of_its_node() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "unprivileged-cdi")?;
    let _hosts = CdiHosts::set_up(&cluster)?;
    let back = upgrade_with(&cluster, &["unprivileged"])?;
    let outcome = opening(&cluster, 1)?;
    ensure!(outcome.contains("No such file"), "without CDI: {outcome}");
    drop(back);

    let _back = upgrade_with(&cluster, &["unprivileged", "unprivileged-cdi"])?;
    has_no_capability(&cluster)?;
    for node in NODES {
        let outcome = opening(&cluster, node)?;
        ensure!(outcome.contains(NO_DRIVER), "on node {node}: {outcome}");
    }
    prepares(&cluster, &namespace)
}
