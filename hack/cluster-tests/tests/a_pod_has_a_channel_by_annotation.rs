//! The chart `imex-annotation` on the real runtime: a pod has the channel that its annotation names, if the
//! node allows it for the namespace and nobody else has it; it loses it when it goes, also while the plugin and
//! the runtime are killed.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, ChartValue};
use cluster_tests::{Cluster, Namespace, channels, program_path, wait_until};
use serde_json::{Value, json};

const NODE: u8 = 1;
const RELEASE: &str = "imex-annotation";
const CHART: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deployments/helm/imex-annotation"
);

/// The chart's release, which goes with the test.
struct Release(Cluster);

impl Release {
    fn install(cluster: &Cluster) -> Result<Self> {
        let installed = Self(cluster.clone());
        let namespace = format!("--namespace={RELEASE}");
        let command = [
            "helm",
            "install",
            RELEASE,
            CHART,
            &namespace,
            "--create-namespace",
            "--set=allow.ann-a=9\\,12",
            "--set=allow.ann-b=9",
            "--set=altProcDevices=/run/nvidia/driver/proc-devices",
            "--wait",
            "--timeout=120s",
        ];
        cluster.script(&command, "")?;
        installed.is_connected(1)?;
        Ok(installed)
    }
}

impl Release {
    /// Waits until the plugin on the node has connected so many times since it started.
    fn is_connected(&self, times: usize) -> Result<()> {
        let Self(cluster) = self;
        wait_until(cluster, "the plugin is connected", || {
            let on_node = format!("--field-selector=spec.nodeName=node{NODE}");
            let pods = cluster.items(&["pods", "-n", RELEASE, &on_node])?;
            let name = pods.first().and_then(|pod| pod.pointer("/metadata/name"));
            let name = name.and_then(Value::as_str).context("it has no pod")?;
            let log = cluster.kubectl(&["logs", "-n", RELEASE, name])?;
            ensure!(
                log.matches(": connected").count() == times,
                "its log: {log}"
            );
            Ok(())
        })
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let namespace = format!("--namespace={RELEASE}");
        let command = ["helm", "uninstall", RELEASE, &namespace, "--wait"];
        drop(self.0.script(&command, "")); // ignored: if it fails, so does the next test that installs it
    }
}

fn pod(namespace: &Namespace, name: &str, channel: &str) -> String {
    let container = |name: &str, command: &str| {
        json!({
            "name": name, "image": "localhost/busybox:1", "imagePullPolicy": "Never",
            "command": ["sh", "-c", command],
        })
    };
    let stays = "trap 'exit 0' TERM; sleep 100000 & wait";
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace.name, "annotations": {"imex-dra/channel": channel}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": format!("node{NODE}")},
            "initContainers": [container("first", "test -c /dev/nvidia-caps-imex-channels/channel*")],
            "containers": [container("main", stays), container("beside", stays)],
        },
    })
    .to_string()
}

fn is_refused(cluster: &Cluster, namespace: &Namespace, name: &str, words: &str) -> Result<()> {
    wait_until(cluster, &format!("{name} is refused"), || {
        let events = cluster.events_about(&namespace.name, name)?;
        let said = |event: &String| event.starts_with("Failed: ") && event.contains(words);
        ensure!(events.iter().any(said), "its events: {events:#?}");
        Ok(())
    })
}

/// `NAMESPACE/NAME CHANNEL` of each record on the node.
fn records(cluster: &Cluster) -> Result<Vec<String>> {
    let files = cluster.on_node(
        NODE,
        "cat /run/imex-dra/annotations/*.json 2>/dev/null; true",
    )?;
    let records = serde_json::Deserializer::from_str(&files).into_iter::<Value>();
    let mut found = Vec::new();
    for record in records {
        let record = record?;
        let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
        let channel = record.get("channel").and_then(Value::as_u64);
        let (namespace, name) = (text("namespace"), text("name"));
        found.push(format!(
            "{namespace}/{name} {}",
            channel.unwrap_or_default()
        ));
    }
    found.sort();
    Ok(found)
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn it_has_it_alone_until_it_goes() -> Result<()> {
    let cluster = Cluster::connect()?;
    let (ours, other) = (
        Namespace::create(&cluster, "ann-a")?,
        Namespace::create(&cluster, "ann-b")?,
    );
    let release = Release::install(&cluster)?;

    cluster.apply(&pod(&ours, "worker", "9"))?;
    fixtures::wait_until_running(&cluster, &ours, "worker")?;
    channels::sees_only(&cluster, &ours, "worker", 9)?;
    channels::may_not_open(&cluster, &ours, ("worker", NODE), 10)?;
    let list = "ls /dev/nvidia-caps-imex-channels";
    let beside = [
        "exec", "worker", "-n", &ours.name, "-c", "beside", "--", "sh", "-c", list,
    ];
    let beside = cluster.kubectl(&beside)?;
    ensure!(beside.trim() == "channel9", "the other container: {beside}");
    ensure!(
        records(&cluster)? == ["ann-a/worker 9"],
        "{:?}",
        records(&cluster)?
    );
    let doctor = format!("{} doctor --json; true", program_path("cdi-gen")?);
    let report = cluster.on_node(NODE, &doctor)?;
    ensure!(
        report.contains("channel-by-annotation") && report.contains("ann-a/worker"),
        "doctor says: {report}"
    );

    for (namespace, name, channel, words) in [
        (
            &other,
            "taken",
            "9",
            "in use on this node by pod ann-a/worker of another namespace",
        ),
        (
            &other,
            "foreign",
            "12",
            "which this node does not allow in namespace ann-b",
        ),
        (
            &ours,
            "unlisted",
            "10",
            "which this node does not allow in namespace ann-a",
        ),
        (
            &ours,
            "zeros",
            "012",
            "is not the number of an IMEX channel",
        ),
        (
            &ours,
            "negative",
            "-1",
            "is not the number of an IMEX channel",
        ),
        (&ours, "empty", "", "is not the number of an IMEX channel"),
        (&ours, "two", "9,12", "is not the number of an IMEX channel"),
    ] {
        cluster.apply(&pod(namespace, name, channel))?;
        is_refused(&cluster, namespace, name, words)?;
    }
    cluster.apply(&pod(&ours, "second", "9"))?;
    fixtures::wait_until_running(&cluster, &ours, "second")?;

    // Nobody sees it go, unless kubelet starts the plugin again before that.
    let kill = "for it in /proc/[0-9]*; do [ \"$(cat $it/comm 2>/dev/null)\" = imex-annotation ] && kill -9 ${it#/proc/}; done; true";
    cluster.on_node(NODE, kill)?;
    cluster.kubectl(&[
        "delete", "pod", "worker", "second", "-n", &ours.name, "--wait",
    ])?;
    fixtures::wait_until_running(&cluster, &other, "taken")?;
    channels::sees_only(&cluster, &other, "taken", 9)?;
    ensure!(
        records(&cluster)? == ["ann-b/taken 9"],
        "{:?}",
        records(&cluster)?
    );

    // A runtime that is killed finds the plugin again, and the pod its channel.
    cluster.script(&["kill", "containerd-1"], "")?;
    cluster.script(&["start", "containerd-1"], "")?;
    release.is_connected(2)?;
    cluster.apply(&pod(&other, "later", "9"))?;
    fixtures::wait_until_running(&cluster, &other, "later")?;
    channels::sees_only(&cluster, &other, "later", 9)?;
    channels::sees_only(&cluster, &other, "taken", 9)
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_guard_lets_it_have_that_one_and_no_other() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "ann-a")?;
    let _enforce = ChartValue::set(&cluster, "nriGuard.mode", "enforce")?;
    let _release = Release::install(&cluster)?;

    cluster.apply(&pod(&namespace, "worker", "9"))?;
    fixtures::wait_until_running(&cluster, &namespace, "worker")?;
    channels::sees_only(&cluster, &namespace, "worker", 9)?;
    let events = cluster.events_about(&namespace.name, "worker")?;
    let told = events.iter().any(|event| event.starts_with("Channel"));
    ensure!(!told, "the worker: {events:#?}");

    // The environment is an image's or a user's, and not what the annotation gives.
    let mut other: Value = serde_json::from_str(&pod(&namespace, "other", "9"))?;
    if let Some(container) = other.pointer_mut("/spec/containers/0") {
        container["env"] = json!([{"name": "NVIDIA_IMEX_CHANNELS", "value": "12"}]);
    }
    cluster.apply(&other.to_string())?;
    is_refused(
        &cluster,
        &namespace,
        "other",
        "the container asks for IMEX channel 12",
    )
}
