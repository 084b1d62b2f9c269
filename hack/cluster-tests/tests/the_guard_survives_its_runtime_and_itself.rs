//! The guard and the container runtime are separate processes, and either may end at any moment. The guard is
//! registered again within two seconds, and in mode warn no container fails to start because of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use cluster_tests::fixtures::{self, ChartValue, SLEEP, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

/// The plugin's log message when its guard is registered.
const CONNECTED: &str = "the NRI guard is active";
/// The limit for the registration.
const LIMIT: Duration = Duration::from_secs(2);
/// Pods at once, and containers of each; kubelet starts these one after the other. A hundred pods at once are too many
/// for two cores: `docs/nri-guard.md` describes the effect.
const PODS: usize = 20;
const CONTAINERS: usize = 10;

// req: NRI-5
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_runtime_that_restarts_has_its_guard_again_within_two_seconds() -> Result<()> {
    let cluster = Cluster::connect()?;
    let _warn = ChartValue::set(&cluster, "nriGuard.mode", "warn")?;
    let namespace = Namespace::create(&cluster, "guard-runtime")?;
    let plugin = NodePod::plugin(&cluster, 1)?;
    for round in 0..3 {
        let before = connections(&plugin)?;
        cluster.script(&["kill", "containerd-1"], "")?;
        cluster.script(&["start", "containerd-1"], "")?;
        // `start` returns when the runtime answers.
        let answers = Instant::now();
        wait_until(&cluster, "the guard is connected again", || {
            ensure!(connections(&plugin)? > before, "not yet");
            Ok(())
        })?;
        let took = answers.elapsed();
        ensure!(took < LIMIT, "round {round}: after {took:?}");
        let pod = format!("asks-{round}");
        cluster.apply(&pod_with(&namespace, &pod, 1))?;
        fixtures::wait_until_running(&cluster, &namespace, &pod)?;
        is_reported(&cluster, &namespace, &pod)?;
    }
    ensure!(plugin.restarts()? == 0, "the plugin was restarted");
    Ok(())
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn killing_the_guard_while_pods_start_makes_no_pod_fail() -> Result<()> {
    let cluster = Cluster::connect()?;
    let _warn = ChartValue::set(&cluster, "nriGuard.mode", "warn")?;
    let namespace = Namespace::create(&cluster, "guard-killed")?;
    // kubelet's back-off grows with each restart of a container: few rounds, with more pods in each.
    for round in 0..3_u32 {
        let plugin = NodePod::plugin(&cluster, 1)?;
        let kill = plugin.kill_command()?;
        let restarts = plugin.restarts()?;
        let pods: Vec<String> = (0..10).map(|pod| format!("pod-{round}-{pod}")).collect();
        let manifests: Vec<_> = pods
            .iter()
            .map(|pod| pod_with(&namespace, pod, 2))
            .collect();
        cluster.apply(&manifests.join("\n"))?;
        // In the middle of their starts, which take a second or two.
        std::thread::sleep(Duration::from_millis(u64::from(round) * 400));
        cluster.on_node(1, &kill)?;
        for pod in &pods {
            fixtures::wait_until_running(&cluster, &namespace, pod)?;
            nothing_failed(&cluster, &namespace, pod)?;
        }
        wait_until(&cluster, "kubelet has restarted the plugin", || {
            ensure!(
                plugin.restarts()? > restarts && connections(&plugin)? > 0,
                "not yet"
            );
            Ok(())
        })?;
        let took = start_to_connection(&cluster, &plugin)?;
        ensure!(
            took < LIMIT,
            "round {round}: connected {took:?} after its start"
        );
    }
    Ok(())
}

// req: NRI-5
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn killing_the_runtime_while_pods_start_causes_no_failures_of_the_guard() -> Result<()> {
    let cluster = Cluster::connect()?;
    let _warn = ChartValue::set(&cluster, "nriGuard.mode", "warn")?;
    let namespace = Namespace::create(&cluster, "guard-runtime-killed")?;
    // The number of pods in a state, according to the API server, before the runtime is killed.
    for (round, (at_least, state)) in [
        (1, "/spec/nodeName"),
        (1, "/status/podIP"),
        (1, "/status/containerStatuses/0/state/running"),
        (5, "/status/containerStatuses/0/state/running"),
    ]
    .into_iter()
    .enumerate()
    {
        let pods: Vec<String> = (0..10).map(|pod| format!("pod-{round}-{pod}")).collect();
        let manifests: Vec<_> = pods
            .iter()
            .map(|pod| restarting(&pod_with(&namespace, pod, 1)))
            .collect::<Result<_>>()?;
        cluster.apply(&manifests.join("\n"))?;
        wait_until(&cluster, &format!("{at_least} have {state}"), || {
            let now = cluster.items(&["pods", "-n", &namespace.name])?;
            let of_round = now.iter().filter(|pod| is_of_round(pod, round));
            let found = of_round.filter(|pod| pod.pointer(state).is_some()).count();
            ensure!(found >= at_least, "{found} have it");
            Ok(())
        })?;
        cluster.script(&["kill", "containerd-1"], "")?;
        cluster.script(&["start", "containerd-1"], "")?;
        for pod in &pods {
            fixtures::wait_until_running(&cluster, &namespace, pod)?;
            nothing_of_ours_failed(&cluster, &namespace, pod)?;
        }
    }
    Ok(())
}

// req: NRI-12
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn during_an_update_two_guards_refuse_the_same_pods_as_one() -> Result<()> {
    let cluster = Cluster::connect()?;
    let _enforce = ChartValue::set(&cluster, "nriGuard.mode", "enforce")?;
    let namespace = Namespace::create(&cluster, "guard-update")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::create_claim(&cluster, &namespace, "shared", &domain)?;
    // This pod keeps the claim prepared.
    fixtures::run_pod_with_claim(&cluster, &namespace, "keeper", 1, "shared")?;
    let daemon_set = [
        "daemonset/imex-dra-kubelet-plugin",
        "-n",
        cluster_tests::node_pod::NAMESPACE,
    ];
    let rollout = |verb: &str| cluster.kubectl(&[&["rollout", verb], &daemon_set[..]].concat());
    rollout("restart")?;
    let finished = std::thread::scope(|scope| {
        let status = scope.spawn(|| rollout("status"));
        let mut rounds = 0;
        let mut after = 0;
        while after < 3 {
            after += u32::from(status.is_finished());
            let with = format!("with-{rounds}");
            fixtures::create_pod_with_claim(&cluster, &namespace, &with, 1, "shared")?;
            cluster.apply(&pod_with(&namespace, &format!("without-{rounds}"), 1))?;
            rounds += 1;
        }
        let status = status.join().map_err(|_| anyhow!("the thread panicked"))?;
        status.map(|_| rounds)
    });
    let rounds = finished?;
    println!("{rounds} pods with the claim and as many without in an update");
    ensure!(rounds > 3, "the update ended before a pod was created");
    for round in 0..rounds {
        let with = format!("with-{round}");
        fixtures::wait_until_running(&cluster, &namespace, &with)?;
        nothing_of_ours_failed(&cluster, &namespace, &with)?;
        let without = format!("without-{round}");
        wait_until(&cluster, &format!("{without} is refused"), || {
            let events = cluster.events_about(&namespace.name, &without)?;
            let of_guard = |event: &String| event.contains("the container asks for IMEX channel");
            ensure!(events.iter().any(of_guard), "its events: {events:#?}");
            Ok(())
        })?;
        let pod = cluster.json(&["get", "pod", &without, "-n", &namespace.name])?;
        let status = pod.pointer("/status/containerStatuses/0/state");
        let is_waiting = status.is_some_and(|state| state.get("waiting").is_some());
        ensure!(is_waiting, "{without} was not refused: {status:?}");
    }
    Ok(())
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn two_hundred_containers_of_twenty_pods_at_once_start_and_have_events() -> Result<()> {
    let cluster = Cluster::connect()?;
    let _warn = ChartValue::set(&cluster, "nriGuard.mode", "warn")?;
    let namespace = Namespace::create(&cluster, "guard-many")?;
    let plugin = NodePod::plugin(&cluster, 1)?;
    let pods: Vec<String> = (0..PODS).map(|pod| format!("pod-{pod}")).collect();
    let manifests: Vec<_> = pods
        .iter()
        .map(|pod| pod_with(&namespace, pod, CONTAINERS))
        .collect();
    cluster.apply(&manifests.join("\n"))?;
    for pod in &pods {
        fixtures::wait_until_running(&cluster, &namespace, pod)?;
        nothing_failed(&cluster, &namespace, pod)?;
    }
    is_reported(&cluster, &namespace, "pod-0")?;
    ensure!(plugin.restarts()? == 0, "the plugin was restarted");
    // On a busy machine the runtime may disconnect a guard that answers late. That is a time limit, not the subject of
    // this test: the guard reconnects and reports the next pod.
    let connections = connections(&plugin)?;
    println!("connections of the guard: {connections}");
    cluster.apply(&pod_with(&namespace, "afterwards", 1))?;
    fixtures::wait_until_running(&cluster, &namespace, "afterwards")?;
    is_reported(&cluster, &namespace, "afterwards")
}

fn connections(plugin: &NodePod) -> Result<usize> {
    Ok(plugin.log()?.matches(CONNECTED).count())
}

/// The time from the first line of the log to the connection.
fn start_to_connection(cluster: &Cluster, plugin: &NodePod) -> Result<Duration> {
    let logs = [
        "logs",
        "-n",
        cluster_tests::node_pod::NAMESPACE,
        &plugin.name,
    ];
    let log = cluster.kubectl(&logs)?;
    let time_of = |word: &str| {
        let line = log.lines().find(|line| line.contains(word));
        let time = line.and_then(|line| line.split_whitespace().next());
        let time = time.with_context(|| format!("no line with {word:?} in {log}"))?;
        seconds_of_day(time).with_context(|| format!("{time:?} is not a time"))
    };
    let took = time_of(CONNECTED)? - time_of(" starts")?;
    // It may include midnight.
    Ok(Duration::from_secs_f64(took.rem_euclid(86_400.0)))
}

/// The seconds of the day of a time such as `2026-11-23T09:25:00.390115Z`.
fn seconds_of_day(time: &str) -> Option<f64> {
    let (_, clock) = time.trim_end_matches('Z').split_once('T')?;
    let mut seconds = 0.0;
    for part in clock.split(':') {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(seconds)
}

fn is_reported(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    wait_until(cluster, &format!("{pod} has the event"), || {
        let events = cluster.events_about(&namespace.name, pod)?;
        let reported = events
            .iter()
            .any(|event| event.starts_with("ChannelWithoutClaim"));
        ensure!(reported, "its events: {events:#?}");
        Ok(())
    })
}

fn nothing_failed(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    let events = cluster.events_about(&namespace.name, pod)?;
    let failed = events.iter().find(|event| event.starts_with("Failed"));
    ensure!(failed.is_none(), "{pod}: {failed:?}");
    Ok(())
}

/// The runtime's own end makes starts fail; the guard's absence or reconnection does not.
fn nothing_of_ours_failed(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    let events = cluster.events_about(&namespace.name, pod)?;
    let failed = events.iter().find(|event| {
        let words = ["NRI", "nri", "imex-dra", "IMEX"];
        event.starts_with("Failed") && words.iter().any(|word| event.contains(word))
    });
    ensure!(failed.is_none(), "{pod}: {failed:?}");
    Ok(())
}

fn is_of_round(pod: &Value, round: usize) -> bool {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str);
    name.is_some_and(|name| name.starts_with(&format!("pod-{round}-")))
}

/// The same pod, with restarts of containers that fail to start.
fn restarting(pod: &str) -> Result<String> {
    let mut pod: Value = serde_json::from_str(pod)?;
    let policy = pod.pointer_mut("/spec/restartPolicy");
    *policy.context("the pod has no restartPolicy")? = json!("Always");
    Ok(pod.to_string())
}

/// A pod on node 1, with containers that request a channel.
fn pod_with(namespace: &Namespace, name: &str, containers: usize) -> String {
    let container = |number: usize| {
        json!({
            "name": format!("main-{number}"),
            "image": "localhost/busybox:1",
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", SLEEP],
            "env": [{"name": "NVIDIA_IMEX_CHANNELS", "value": "0"}],
        })
    };
    let containers: Vec<Value> = (0..containers).map(container).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "containers": containers,
        },
    })
    .to_string()
}
