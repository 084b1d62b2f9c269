//! Driver-managed IMEX: an update of the chart replaces the daemon of a node without claims at once, and that of a
//! node with a job after the job has ended. The job is not affected.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::node_pod::{NAMESPACE, NodePod};
use cluster_tests::release::{CHART, helm};
use cluster_tests::{Cluster, Namespace, channels, imex_members, wait_until};
use serde_json::Value;

// req: MODE-25, MODE-26
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_daemon_of_a_running_job_is_replaced_after_the_job_has_ended() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "updated")?;
    let before = imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let channel = channels::of_domain(&cluster, &namespace, "train")?;
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;
    let container = container(&cluster, &namespace)?;

    // legacy: helm's other wait strategy would also wait for the daemons, and so for the job.
    let options = [
        "--wait=legacy",
        "--timeout=120s",
        "--set=imexDaemon.podAnnotations.update=first",
    ];
    update(&cluster, &options)?;
    let after = wait_until(&cluster, "node 2 has a new daemon, and is ready", || {
        let members = imex_members::wait_until_ready(&cluster)?;
        ensure!(members[1].pod_uid != before[1].pod_uid, "{members:?}");
        ensure!(template(&cluster, 2)? == "first", "it is not new");
        Ok(members)
    })?;
    let places = |members: &[imex_members::Member]| [members[0].index, members[1].index];
    ensure!(
        places(&after) == places(&before),
        "{after:?}, and before: {before:?}"
    );

    // Another pod can start on node 1 meanwhile.
    fixtures::run_pod(&cluster, &namespace, "second", 1, Some(&domain))?;
    channels::sees_only(&cluster, &namespace, "second", channel)?;
    let now = imex_members::wait_until_ready(&cluster)?;
    ensure!(now[0] == before[0], "its daemon was replaced: {now:?}");
    ensure!(
        self::container(&cluster, &namespace)? == container,
        "the job's container has changed"
    );
    channels::sees_only(&cluster, &namespace, "worker", channel)?;

    another_leader_marks_no_node_in_use(&cluster, &namespace)?;

    let delete = ["delete", "pods", "--all", "-n", &namespace.name, "--wait"];
    cluster.kubectl(&delete)?;
    wait_until(&cluster, "node 1 has a new daemon, and is ready", || {
        let members = imex_members::wait_until_ready(&cluster)?;
        ensure!(members[0].pod_uid != before[0].pod_uid, "{members:?}");
        ensure!(template(&cluster, 1)? == "first", "it is not new");
        Ok(())
    })?;
    fixtures::run_pod(&cluster, &namespace, "after", 1, Some(&domain))?;
    channels::sees_only(&cluster, &namespace, "after", channel)
}

// req: MODE-27
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn an_update_that_does_not_start_replaces_one_daemon_and_a_corrected_one_continues() -> Result<()> {
    let cluster = Cluster::connect()?;
    let before = imex_members::wait_until_ready(&cluster)?;
    // The new daemon exits at once with an error.
    let option = [
        "--set=imexDaemon.env[0].name=IMEX_QUERY_TIMEOUT",
        "--set=imexDaemon.env[0].value=never",
    ];
    update(&cluster, &option)?;
    wait_until(&cluster, "one daemon does not start", || {
        let members = imex_members::of(&cluster, cluster_tests::cliques::CLIQUE)?;
        let lost = members.iter().filter(|it| !before.contains(it));
        let lost: Vec<_> = lost.collect();
        ensure!(lost.len() == 1 && !lost[0].is_ready, "{members:?}");
        let events =
            cluster.kubectl(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"])?;
        ensure!(events.contains("ImexUpdateStopped"), "there is no event");
        Ok(())
    })?;
    // No node has room for the new daemon.
    let no_room = [
        "--set-json=imexDaemon.env=[]",
        "--set=imexDaemon.resources.requests.cpu=1k",
    ];
    update(&cluster, &no_room)?;
    wait_until(&cluster, "the new one is pending", || {
        let selector = "imex-dra-component=imex-daemon";
        let pods = cluster.items(&["pods", "-n", NAMESPACE, "-l", selector])?;
        let phases = pods.iter().filter_map(|pod| pod.pointer("/status/phase"));
        let phases: Vec<_> = phases.filter_map(Value::as_str).collect();
        ensure!(phases.contains(&"Pending"), "{phases:?}");
        Ok(())
    })?;
    update(&cluster, &["--set=imexDaemon.resources.requests.cpu=10m"])?;
    let after = imex_members::wait_until_ready(&cluster)?;
    let same = after.iter().filter(|it| before.contains(it)).count();
    ensure!(same == 1, "{after:?}, and before: {before:?}");
    Ok(())
}

/// A new leader reports the claims of the node, and does not write to the clique's object.
fn another_leader_marks_no_node_in_use(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let version = |cluster: &Cluster| -> Result<Value> {
        let object = imex_members::object(cluster, cluster_tests::cliques::CLIQUE)?;
        let version = object.pointer("/metadata/resourceVersion");
        version.cloned().context("no resourceVersion")
    };
    let before = version(cluster)?;
    for _ in 0..3 {
        let waits = ["-A", "--field-selector=reason=ImexUpdateWaits"];
        cluster.kubectl(&[&["delete", "events"], &waits[..]].concat())?;
        let controllers = "-limex-dra-component=controller";
        cluster.kubectl(&["delete", "pods", "-n", NAMESPACE, controllers, "--force"])?;
        wait_until(cluster, "the new leader reports the claims", || {
            let get = ["get", "events", "-o", "jsonpath={.items[*].message}"];
            let messages = cluster.kubectl(&[&get[..], &waits].concat())?;
            ensure!(
                messages.contains(&format!("{}/", namespace.name)),
                "{messages}"
            );
            Ok(())
        })?;
        ensure!(
            version(cluster)? == before,
            "the clique's object was written"
        );
    }
    Ok(())
}

/// Changes the template of the daemons.
fn update(cluster: &Cluster, values: &[&str]) -> Result<()> {
    let options = [&[CHART, "--reuse-values"], values].concat();
    helm(cluster, "upgrade", &options).map(drop)
}

/// The name of the update in the pod of the node's daemon.
fn template(cluster: &Cluster, node: u8) -> Result<String> {
    let pod = NodePod::imex_daemon(cluster, node)?.name;
    let get = ["get", "pod", &pod, "-n", NAMESPACE];
    let pod = cluster.json(&get)?;
    let name = pod
        .pointer("/metadata/annotations/update")
        .and_then(Value::as_str);
    Ok(name.unwrap_or_default().to_owned())
}

fn container(cluster: &Cluster, namespace: &Namespace) -> Result<Value> {
    let pod = cluster.json(&["get", "pod", "worker", "-n", &namespace.name])?;
    let container = pod
        .pointer("/status/containerStatuses/0")
        .context("no container")?;
    let parts = ["containerID", "restartCount", "state"];
    Ok(parts.iter().map(|part| container[*part].clone()).collect())
}
