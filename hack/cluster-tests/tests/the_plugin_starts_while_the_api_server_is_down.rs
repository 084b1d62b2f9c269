//! The plugin restarts while the API server is down: it keeps running, and works without another
//! restart once the API server is back.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};

// req: NODE-34
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_plugin_that_starts_without_api_server_works_when_it_is_back() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "no-api")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let plugin = NodePod::plugin(&cluster, 1)?;
    let before = plugin.restarts()?;

    let kill = plugin.kill_command()?;
    cluster.script(&["kill", "apiserver"], "")?;
    let back = ApiServer(&cluster);
    cluster.on_node(1, &kill)?;
    // kubelet restarts the container without the API server, and accepts its
    // registration: Unprepare needs no API server.
    wait_until(
        &cluster,
        "the new plugin is registered with kubelet",
        || {
            let logs = "/var/log/pods/imex-dra_imex-dra-kubelet-plugin-*/compute-domains/*.log";
            let newest = cluster.on_node(1, &format!("cat $(ls -t {logs} | head -1)"))?;
            ensure!(newest.contains(r#"ready condition="kubelet""#), "{newest}");
            Ok(())
        },
    )?;
    drop(back);

    wait_until(&cluster, "the plugin is ready", || {
        ensure!(
            plugin.restarts()? > before,
            "the restart is not in its status yet"
        );
        ensure!(plugin.is_ready()?, "{:?}", plugin.log()?.lines().last());
        Ok(())
    })?;
    ensure!(
        plugin.restarts()? == before + 1,
        "it was restarted more often than it was killed"
    );
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;
    // The controller works again, too.
    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    domain.delete(&cluster, &namespace)
}

/// The stopped API server; started again when this is dropped.
struct ApiServer<'a>(&'a Cluster);

impl Drop for ApiServer<'_> {
    fn drop(&mut self) {
        // Ignored: the next request fails with the error.
        drop(self.0.script(&["start", "apiserver"], ""));
    }
}
