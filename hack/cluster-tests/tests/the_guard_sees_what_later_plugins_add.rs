//! A plugin of the runtime that runs after the guard adds a channel to a container that the guard has allowed:
//! the container is refused before it starts.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, ChartValue, SLEEP};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Injector, Namespace, wait_until};
use serde_json::json;

/// A CDI spec with a channel and a kind that does not suggest one.
const SPEC: &str = "/etc/cdi/example-late.json";

/// Annotations for which the later plugin adds a device node and a CDI device: the guard knows neither.
const NODE: &str = "injector.example.com/node";
const CDI: &str = "injector.example.com/cdi";

// req: NRI-12
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_channel_that_a_later_plugin_adds_is_refused_before_the_start() -> Result<()> {
    let cluster = Cluster::connect()?;
    let major = fixtures::mock_major(&cluster, 1)?;
    let spec = json!({
        "cdiVersion": "0.5.0",
        "kind": "example.com/late",
        "devices": [
            {"name": "channel", "containerEdits": {"deviceNodes": [{
                "path": "/dev/late", "type": "c", "major": major, "minor": 9,
            }]}},
            {"name": "light", "containerEdits": {"env": ["LIGHT=on"]}},
        ],
    });
    cluster.on_node(1, &format!("mkdir -p /etc/cdi && echo '{spec}' >{SPEC}"))?;
    let _enforce = ChartValue::set(&cluster, "nriGuard.mode", "enforce")?;
    let plugin = NodePod::plugin(&cluster, 1)?;
    let namespace = Namespace::create(&cluster, "guard-late")?;
    let _late = Injector::start(&cluster, env!("CARGO_BIN_EXE_injector"), 1, 95)?;
    for (pod, what, requested, path) in [
        ("node", NODE, format!("{major}:9"), "/dev/injected"),
        (
            "cdi",
            CDI,
            "example.com/late=channel".to_owned(),
            "/dev/late",
        ),
    ] {
        let why = format!("the container asks for IMEX channel 9 (device {path})");
        let before = refused_at_start(&plugin)?;
        cluster.apply(&pod_with(&namespace, pod, what, &requested))?;
        wait_until(&cluster, &format!("{pod} is refused at its start"), || {
            let events = cluster.events_about(&namespace.name, pod)?;
            let refused = events.iter().any(|event| {
                event.starts_with("Failed: ") && event.contains("start") && event.contains(&why)
            });
            ensure!(refused, "its events: {events:#?}");
            Ok(())
        })?;
        ensure!(
            refused_at_start(&plugin)? > before,
            "{pod}: the metric does not count it"
        );
        never_ran(&cluster, &namespace, pod)?;
    }
    // The plugin may make other changes.
    cluster.apply(&pod_with(
        &namespace,
        "light",
        CDI,
        "example.com/late=light",
    ))?;
    fixtures::wait_until_running(&cluster, &namespace, "light")?;
    let (_, light) = cluster.in_pod(&namespace.name, "light", "echo light is $LIGHT")?;
    ensure!(
        light.contains("light is on"),
        "the plugin did nothing: {light}"
    );
    cluster.on_node(1, &format!("rm {SPEC}")).map(drop)
}

fn never_ran(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    let pod = cluster.json(&["get", "pod", pod, "-n", &namespace.name])?;
    let status = pod.pointer("/status/containerStatuses/0");
    let state = status.and_then(|status| status.pointer("/state/running"));
    let ended = status.and_then(|status| status.pointer("/lastState/terminated/startedAt"));
    let started = ended.and_then(|time| time.as_str()).unwrap_or("1970-01-01");
    ensure!(
        state.is_none() && started.starts_with("1970-"),
        "it ran: {status:?}"
    );
    Ok(())
}

/// The value of the plugin's metric.
fn refused_at_start(plugin: &NodePod) -> Result<u64> {
    let metrics = plugin.metrics()?;
    let series = "imex_dra_guarded_containers_total{moment=\"start\",outcome=\"refused\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(Ok(0), |count| Ok(count.parse()?))
}

fn pod_with(namespace: &Namespace, name: &str, what: &str, requested: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace.name,
            "annotations": {what: requested},
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:1",
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", SLEEP],
            }],
        },
    })
    .to_string()
}
