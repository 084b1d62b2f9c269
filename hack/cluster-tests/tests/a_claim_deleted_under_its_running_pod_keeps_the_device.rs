//! Somebody deletes a claim while its pod runs, finalizers and all. The scheduler then gives the device
//! to the next pod; the node does not, until the first pod has ended.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::plugin::PluginPod;
use cluster_tests::{Cluster, Namespace, wait_until};

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_next_pod_gets_the_device_when_the_first_has_ended() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "deleted-claim")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "first", 1, Some(&domain))?;
    let uid = fixtures::only_claim_uid(&cluster, &namespace)?;
    delete_by_force(&cluster, &namespace)?;

    fixtures::create_pod(&cluster, &namespace, "second", 1, Some(&domain))?;
    let plugin = PluginPod::on(&cluster, 1)?;
    wait_until(&cluster, "the plugin has looked for the first pod", || {
        let log = plugin.log()?;
        let mut lines = log.lines().filter(|line| line.contains(&uid));
        ensure!(
            lines.any(|line| line.contains("the device stays held")),
            "not yet"
        );
        Ok(())
    })?;
    let events = cluster.events_about(&namespace.name, "second")?;
    ensure!(
        events
            .iter()
            .any(|event| event.contains("is still in use by claim")),
        "the second pod is told {events:#?}"
    );
    let traces = fixtures::traces_on_node(&cluster, 1, &uid)?;
    ensure!(traces.lines().count() == 2, "of the first: {traces}");

    cluster.kubectl(&["delete", "pod", "first", "-n", &namespace.name, "--wait"])?;
    fixtures::wait_until_running(&cluster, &namespace, "second")?;
    let traces = fixtures::traces_on_node(&cluster, 1, &uid)?;
    ensure!(traces.is_empty(), "of the first: {traces}");
    Ok(())
}

fn delete_by_force(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let claims = ["resourceclaims", "--all", "-n", &namespace.name];
    cluster.kubectl(&[&["delete", "--wait=false"], &claims[..]].concat())?;
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    let names = ["get", "resourceclaims", "-n", &namespace.name, "-o=name"];
    for name in cluster.kubectl(&names)?.lines() {
        let namespace = ["-n", &namespace.name];
        cluster.kubectl(
            &[
                &["patch", name, "--type=merge", "-p", patch],
                &namespace[..],
            ]
            .concat(),
        )?;
    }
    Ok(())
}
