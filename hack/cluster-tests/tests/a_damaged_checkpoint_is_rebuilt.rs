//! The checkpoint is overwritten with garbage while the plugin is running: the plugin sets the
//! file aside, and rebuilds the records from CDI specs and API server. Running pods are not
//! affected.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::plugin::PluginPod;
use cluster_tests::{Cluster, Namespace, wait_until};

const CHECKPOINT: &str = "/var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json";

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_holder_is_known_again_and_its_pod_goes_without_trace() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "damage")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "holder", 1, Some(&domain))?;
    let claim = fixtures::only_claim_uid(&cluster, &namespace)?;

    cluster.on_node(1, &format!("echo garbage > {CHECKPOINT}"))?;
    wait_until(&cluster, "the plugin has rebuilt the checkpoint", || {
        let text = cluster.on_node(1, &format!("cat {CHECKPOINT}; ls {CHECKPOINT}.*"))?;
        ensure!(text.contains(&claim), "the holder is not in it: {text}");
        ensure!(
            text.contains("settled"),
            "the damaged one was not set aside: {text}"
        );
        Ok(())
    })?;
    ensure!(PluginPod::on(&cluster, 1)?.is_ready()?, "not ready again");

    cluster.kubectl(&["delete", "pod", "holder", "-n", &namespace.name, "--wait"])?;
    let traces = fixtures::traces_on_node(&cluster, 1, &claim)?;
    ensure!(traces.is_empty(), "left: {traces}");
    Ok(())
}
