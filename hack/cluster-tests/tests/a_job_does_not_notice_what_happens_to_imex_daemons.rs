//! Driver-managed IMEX: when `nvidia-imex`, its daemon or the controllers end, running pods keep running with their
//! device, the members get their indexes back, and the next pod starts.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::cliques::CLIQUE;
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::node_pod::{NAMESPACE, NodePod};
use cluster_tests::{Cluster, Namespace, channels, imex_members, wait_until};
use serde_json::{Value, json};

const NODE: u8 = 1;

// req: DAEMON-5
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn nvidia_imex_is_killed() -> Result<()> {
    survives("imex-killed", |cluster| {
        let pid = imex_pid(cluster)?;
        cluster.on_node(NODE, &format!("kill -9 {pid}"))?;
        wait_until(cluster, "a new nvidia-imex runs", || {
            let now = imex_pid(cluster)?;
            ensure!(now != pid, "it is still {pid}");
            Ok(())
        })
    })
}

// req: DAEMON-6
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn nvidia_imex_hangs_and_continues() -> Result<()> {
    survives("imex-hangs", |cluster| {
        let pid = imex_pid(cluster)?;
        cluster.on_node(NODE, &format!("kill -STOP {pid}"))?;
        wait_until(cluster, "the node is not ready", || {
            let members = imex_members::of(cluster, CLIQUE)?;
            let member = members.iter().find(|it| it.node == "node1");
            ensure!(member.is_some_and(|it| !it.is_ready), "{members:?}");
            Ok(())
        })?;
        cluster.on_node(NODE, &format!("kill -CONT {pid}"))?;
        ensure!(imex_pid(cluster)? == pid, "it was restarted");
        Ok(())
    })
}

// req: DAEMON-7
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_daemon_is_killed() -> Result<()> {
    survives("daemon-killed", |cluster| {
        let daemon = NodePod::imex_daemon(cluster, NODE)?;
        let before = daemon.restarts()?;
        daemon.kill(NODE)?;
        wait_until(cluster, "kubelet has restarted the daemon", || {
            ensure!(daemon.restarts()? > before, "not yet");
            Ok(())
        })
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn its_pod_is_deleted() -> Result<()> {
    survives("daemon-deleted", |cluster| {
        NodePod::imex_daemon(cluster, NODE)?.replace(NODE).map(drop)
    })
}

/// The old pod may still run, with the driver's session, when the next one starts.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn its_pod_is_deleted_by_force() -> Result<()> {
    survives("daemon-forced", |cluster| {
        let pod = NodePod::imex_daemon(cluster, NODE)?.name;
        let delete = ["delete", "pod", "-n", NAMESPACE, &pod];
        let force = ["--force", "--grace-period=0"];
        cluster.kubectl(&[&delete[..], &force].concat())?;
        wait_until(cluster, "it has a successor", || {
            let now = NodePod::imex_daemon(cluster, NODE)?.name;
            ensure!(now != pod, "it is still {pod}");
            Ok(())
        })
    })
}

/// kubelet does that when it restarts a pod's container.
// req: DAEMON-4
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_hosts_file_of_its_pod_is_rewritten() -> Result<()> {
    survives("hosts-file", |cluster| {
        let pid = imex_pid(cluster)?;
        let hosts = format!("/proc/{pid}/root/etc/hosts");
        let names = "compute-domain-daemon-";
        let overwrite = format!("grep -q {names} {hosts} && echo '127.0.0.1 localhost' >{hosts}");
        cluster.on_node(NODE, &overwrite)?;
        wait_until(cluster, "the members are in it again", || {
            let found = cluster.on_node(NODE, &format!("grep -c {names} {hosts} || true"))?;
            ensure!(found.trim() != "0", "there are none");
            Ok(())
        })
    })
}

/// The edits: labels, a member or the length removed, an index used twice or beyond the list, indexes of two members
/// swapped, UIDs forged, the length changed; finally, the object is deleted.
// req: DM-7
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_object_of_the_clique_is_edited() -> Result<()> {
    survives("edited-clique", |cluster| {
        let pid = imex_pid(cluster)?;
        let before = imex_members::object(cluster, CLIQUE)?;
        let others = before.pointer("/daemons/1/index");
        let others = others.with_context(|| format!("no second member: {before}"))?;
        let patch = |patch: Value| patch_clique(cluster, &patch);
        let settled = || settle(cluster, &before);
        for edit in [
            json!({ "op": "remove", "path": "/metadata/labels" }),
            json!({ "op": "remove", "path": "/daemons/0" }),
            json!({ "op": "remove", "path": "/listLength" }),
            replace("/daemons/0/index", others),
            replace("/daemons/0/index", &json!(2000)),
        ] {
            patch(json!([edit]))?;
            settled()?;
        }
        let own = before.pointer("/daemons/0/index");
        patch(json!([
            replace("/daemons/0/index", others),
            replace("/daemons/1/index", &json!(own)),
        ]))?;
        settled()?;
        let forged = json!("00000000-0000-0000-0000-000000000000");
        patch(json!([
            replace("/daemons/0/nodeUID", &forged),
            replace("/daemons/0/podUID", &forged),
            replace("/listLength", &json!(30)),
        ]))?;
        settled()?;
        delete_clique(cluster)?;
        settled()?;
        ensure!(imex_pid(cluster)? == pid, "nvidia-imex was restarted");
        Ok(())
    })
}

/// No controller has the former state: the running daemons report it.
// req: DM-7
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_clique_is_edited_or_deleted_before_another_controller_leads() -> Result<()> {
    survives("edited-unseen", |cluster| {
        let pid = imex_pid(cluster)?;
        let before = imex_members::object(cluster, CLIQUE)?;
        let index = |number: u8| before.pointer(&format!("/daemons/{number}/index"));
        let swapped = json!([
            replace("/daemons/0/index", &json!(index(1))),
            replace("/daemons/1/index", &json!(index(0))),
            replace("/listLength", &json!(30)),
        ]);
        end_controllers(cluster)?;
        patch_clique(cluster, &swapped)?;
        scale_controllers(cluster, 2)?;
        settle(cluster, &before)?;

        end_controllers(cluster)?;
        delete_clique(cluster)?;
        scale_controllers(cluster, 2)?;
        settle(cluster, &before)?;
        ensure!(imex_pid(cluster)? == pid, "nvidia-imex was restarted");
        Ok(())
    })
}

/// No controller runs while a daemon's pod is replaced.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn no_controller_runs() -> Result<()> {
    survives("no-controller", |cluster| {
        end_controllers(cluster)?;
        let pid = imex_pid(cluster)?;
        cluster.on_node(NODE, &format!("kill -9 {pid}"))?;
        let daemon = NodePod::imex_daemon(cluster, NODE)?;
        wait_until(cluster, "the daemon is ready without a controller", || {
            ensure!(imex_pid(cluster)? != pid, "it is still {pid}");
            ensure!(daemon.is_ready()?, "not ready");
            Ok(())
        })?;
        daemon.replace(NODE)?;
        scale_controllers(cluster, 2)
    })
}

fn scale_controllers(cluster: &Cluster, replicas: u8) -> Result<()> {
    let deployment = "deployment/imex-dra-controller";
    let replicas = format!("--replicas={replicas}");
    cluster.kubectl(&["scale", deployment, "-n", NAMESPACE, &replicas])?;
    Ok(())
}

fn end_controllers(cluster: &Cluster) -> Result<()> {
    scale_controllers(cluster, 0)?;
    let selector = "imex-dra-component=controller";
    wait_until(cluster, "no controller is left", || {
        let left = cluster.items(&["pods", "-n", NAMESPACE, "-l", selector])?;
        ensure!(left.is_empty(), "{} are", left.len());
        Ok(())
    })
}

/// One operation of a JSON patch.
fn replace(path: &str, value: &Value) -> Value {
    json!({ "op": "replace", "path": path, "value": value })
}

fn patch_clique(cluster: &Cluster, patch: &Value) -> Result<()> {
    let patch = patch.to_string();
    let of = ["patch", imex_members::CLIQUES, CLIQUE, "-n", NAMESPACE];
    cluster.kubectl(&[&of[..], &["--type=json", "-p", &patch]].concat())?;
    Ok(())
}

fn delete_clique(cluster: &Cluster) -> Result<()> {
    cluster.kubectl(&["delete", imex_members::CLIQUES, CLIQUE, "-n", NAMESPACE])?;
    Ok(())
}

/// Waits until the clique's object has its former members, length and labels.
fn settle(cluster: &Cluster, before: &Value) -> Result<()> {
    wait_until(cluster, "the clique is as before", || {
        let now = imex_members::object(cluster, CLIQUE)?;
        for path in ["/daemons", "/listLength", "/metadata/labels"] {
            ensure!(now.pointer(path) == before.pointer(path), "{now}");
        }
        Ok(())
    })
}

/// Runs a pod on each node, then `disaster`.
fn survives(name: &str, disaster: impl FnOnce(&Cluster) -> Result<()>) -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, name)?;
    let before = imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let channel = channels::of_domain(&cluster, &namespace, "train")?;
    for node in [1, 2] {
        let pod = format!("worker-{node}");
        fixtures::run_pod(&cluster, &namespace, &pod, node, Some(&domain))?;
    }
    let devices = || {
        let device = |node| device_of(&cluster, &namespace, &format!("worker-{node}"), channel);
        Ok::<_, anyhow::Error>([device(1)?, device(2)?])
    };
    let devices_before = devices()?;

    disaster(&cluster)?;

    let after = imex_members::wait_until_ready(&cluster)?;
    let places = |members: &[imex_members::Member]| -> Vec<_> {
        let places = members.iter().map(|it| (it.node.clone(), it.index));
        places.collect()
    };
    ensure!(
        places(&before) == places(&after),
        "the members were {before:?} and are {after:?}"
    );
    ensure!(devices()? == devices_before, "it was {devices_before:?}");
    fixtures::run_pod(&cluster, &namespace, "after", NODE, Some(&domain))?;
    channels::sees_only(&cluster, &namespace, "after", channel)
}

/// The container's device and state: they change if the container restarts or its device is replaced.
fn device_of(
    cluster: &Cluster,
    namespace: &Namespace,
    pod: &str,
    channel: u64,
) -> Result<(String, Value)> {
    let path = format!("{}/channel{channel}", channels::CHANNELS);
    let stat = format!("stat -c '%F %a %t %T %i' {path}");
    let (found, device) = cluster.in_pod(&namespace.name, pod, &stat)?;
    ensure!(found, "{pod}: {device}");
    let pod = cluster.json(&["get", "pod", pod, "-n", &namespace.name])?;
    let container = pod.pointer("/status/containerStatuses/0").cloned();
    Ok((device, container.context("no container")?))
}

/// The PID of the node's `nvidia-imex`: all nodes are in one PID namespace.
fn imex_pid(cluster: &Cluster) -> Result<u32> {
    let container = NodePod::imex_daemon(cluster, NODE)?.container_id()?;
    let command = format!(
        "for pid in $(ctr -n k8s.io task ps {container} | awk 'NR > 1 {{print $1}}'); do \
             ! tr '\\0' ' ' 2>/dev/null </proc/$pid/cmdline | grep -q 'nvidia-imex -c ' || echo $pid; \
         done"
    );
    let pid = cluster.on_node(NODE, &command)?;
    pid.trim().parse().with_context(|| format!("PIDs: {pid:?}"))
}
