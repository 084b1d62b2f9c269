//! The plugin of the chart's `unprivileged.values.yaml` has no privilege and no capability, and gives pods their
//! channels all the same.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::release::{CHART, upgrade};
use cluster_tests::{Cluster, Namespace};

const CONTAINER: &str = "kubeletPlugin.containers.computeDomains";

/// Sets the chart's values back.
struct Privileged(Cluster);

impl Drop for Privileged {
    fn drop(&mut self) {
        let context = format!("--set-json={CONTAINER}.securityContext={{\"privileged\":true}}");
        let env = format!("--set-json={CONTAINER}.env=[]");
        // ignored: if it fails, the next test does, too
        drop(upgrade(
            &self.0,
            &["--set=guard.override=true", &context, &env],
        ));
    }
}

// req: CHART-17
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_gets_its_channel_and_loses_it() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "unprivileged")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let _back = Privileged(cluster.clone());
    let values = format!("{CHART}/unprivileged.values.yaml");
    upgrade(&cluster, &["-f", &values])?;
    let capabilities = cluster.on_node(
        1,
        "for it in /proc/[0-9]*; do case $(tr '\\0' ' ' <$it/cmdline 2>/dev/null) in compute-domain-kubelet-plugin*) grep CapEff $it/status;; esac; done",
    )?;
    // Of both nodes' plugins: the nodes are namespaces of one machine.
    let mut sets = capabilities.lines();
    ensure!(
        !capabilities.is_empty() && sets.all(|set| set.ends_with("\t0000000000000000")),
        "{capabilities}"
    );
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;
    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    domain.delete(&cluster, &namespace)
}
