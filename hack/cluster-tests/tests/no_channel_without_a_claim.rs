//! The NRI guard on the real runtime: a container that requests an IMEX channel without a claim is refused with a
//! message, or reported; containers with a claim start in both modes.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, ChartValue, SLEEP, TestDomain};
use cluster_tests::{Cluster, Namespace, channels, wait_until};
use serde_json::{Value, json};

const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";
/// A CDI spec with a channel and a kind that does not suggest one.
const FABRIC_SPEC: &str = "/etc/cdi/example-fabric.json";
/// A channel's device node on the host, under another name.
const ALIAS: &str = "/dev/made-by-hand";

/// A way to request a channel: the pod's name, words of the message, and the pod's settings.
struct RequestKind {
    name: &'static str,
    word: &'static str,
    annotations: Value,
    env: Value,
    host_path: Option<(&'static str, &'static str)>,
    /// Also in the host's namespaces.
    is_privileged: bool,
}

// req: NRI-12
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn in_mode_enforce_every_request_is_refused_and_an_event_says_why() -> Result<()> {
    let cluster = Cluster::connect()?;
    make_nodes(&cluster)?;
    let _enforce = ChartValue::set(&cluster, "nriGuard.mode", "enforce")?;
    let namespace = Namespace::create(&cluster, "guard-enforce")?;
    for door in request_kinds() {
        cluster.apply(&door.pod(&namespace))?;
    }
    for door in request_kinds() {
        wait_until(&cluster, &format!("{} is refused", door.name), || {
            let events = cluster.events_about(&namespace.name, door.name)?;
            let of_kubelet = |event: &&String| event.starts_with("Failed: ");
            let refused = events.iter().filter(of_kubelet).find(|event| {
                event.contains("the container asks for") && event.contains(door.word)
            });
            ensure!(refused.is_some(), "its events: {events:#?}");
            let ours = |event: &String| event.starts_with("ChannelWithoutClaim: container main: ");
            ensure!(events.iter().any(ours), "its events: {events:#?}");
            Ok(())
        })?;
        let phase = phase_of(&cluster, &namespace, door.name)?;
        ensure!(phase == "Pending", "{} is {phase}", door.name);
    }
    pods_with_a_claim_start(&cluster, &namespace)?;
    pods_that_may_use_every_device_have_an_event(&cluster, &namespace)?;
    a_device_of_the_same_kind_without_a_channel_is_ignored(&cluster, &namespace)
}

// req: NRI-12
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn in_mode_warn_every_pod_starts_and_has_an_event() -> Result<()> {
    let cluster = Cluster::connect()?;
    make_nodes(&cluster)?;
    let _warn = ChartValue::set(&cluster, "nriGuard.mode", "warn")?;
    let namespace = Namespace::create(&cluster, "guard-warn")?;
    for door in request_kinds() {
        cluster.apply(&door.pod(&namespace))?;
    }
    for door in request_kinds() {
        fixtures::wait_until_running(&cluster, &namespace, door.name)?;
        wait_until(&cluster, &format!("{} has the event", door.name), || {
            let events = cluster.events_about(&namespace.name, door.name)?;
            let found = events.iter().any(|event| {
                event.starts_with("ChannelWithoutClaim: ")
                    && event.contains(door.word)
                    && event.contains("the container is allowed")
            });
            ensure!(found, "its events: {events:#?}");
            Ok(())
        })?;
    }
    pods_with_a_claim_start(&cluster, &namespace)?;
    // The guard does not notice this node, but the device cgroup denies it.
    let alias = RequestKind {
        host_path: Some((ALIAS, "/dev/alias")),
        ..RequestKind::new("alias", "")
    };
    cluster.apply(&alias.pod(&namespace))?;
    fixtures::wait_until_running(&cluster, &namespace, "alias")?;
    let (opened, text) = cluster.in_pod(&namespace.name, "alias", "cat /dev/alias")?;
    ensure!(
        !opened && text.contains("Operation not permitted"),
        "a node by another name: {text:?}"
    );
    Ok(())
}

/// Usual claims: from a template, and shared by two pods.
fn pods_with_a_claim_start(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let domain = TestDomain::create(cluster, namespace, "train", "Single")?;
    fixtures::run_pod(cluster, namespace, "own", 2, Some(&domain))?;
    channels::sees_only(cluster, namespace, "own", 0)?;
    fixtures::create_claim(cluster, namespace, "shared", &domain)?;
    for pod in ["first", "further"] {
        fixtures::run_pod_with_claim(cluster, namespace, pod, 1, "shared")?;
        channels::sees_only(cluster, namespace, pod, 0)?;
        let events = cluster.events_about(&namespace.name, pod)?;
        let found = events.iter().any(|event| event.starts_with("Channel"));
        ensure!(!found, "{pod}: {events:#?}");
    }
    Ok(())
}

fn pods_that_may_use_every_device_have_an_event(
    cluster: &Cluster,
    namespace: &Namespace,
) -> Result<()> {
    let admin = RequestKind {
        is_privileged: true,
        ..RequestKind::new("admin", "")
    };
    cluster.apply(&admin.pod(namespace))?;
    fixtures::wait_until_running(cluster, namespace, "admin")?;
    wait_until(cluster, "the privileged pod has the event", || {
        let events = cluster.events_about(&namespace.name, "admin")?;
        let found = |event: &String| event.starts_with("EveryChannel: ");
        ensure!(events.iter().any(found), "its events: {events:#?}");
        Ok(())
    })
}

/// The guard also ignores a device that no spec defines.
fn a_device_of_the_same_kind_without_a_channel_is_ignored(
    cluster: &Cluster,
    namespace: &Namespace,
) -> Result<()> {
    let light = RequestKind {
        env: json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "example.com/fabric=light,example.com/undefined=all"}]),
        ..RequestKind::new("light", "")
    };
    cluster.apply(&light.pod(namespace))?;
    fixtures::wait_until_running(cluster, namespace, "light")?;
    let events = cluster.events_about(&namespace.name, "light")?;
    let found = events.iter().any(|event| event.starts_with("Channel"));
    ensure!(!found, "its events: {events:#?}");
    Ok(())
}

fn request_kinds() -> [RequestKind; 9] {
    let channel = json!("nvidia.com/imex-channel=0");
    // containerd itself ignores both: they are for NVIDIA's runtime and plugin.
    let fabric = "example.com/fabric=all";
    [
        RequestKind {
            env: json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": fabric}]),
            ..RequestKind::new(
                "fabric",
                "IMEX channel 9 (environment variable NVIDIA_VISIBLE_DEVICES)",
            )
        },
        RequestKind {
            annotations: json!({"nvidia.cdi.k8s.io/container.main": fabric}),
            ..RequestKind::new(
                "fabric-annotation",
                "IMEX channel 9 (annotation nvidia.cdi.k8s.io/container.main)",
            )
        },
        RequestKind {
            env: json!([{"name": "NVIDIA_IMEX_CHANNELS", "value": "0"}]),
            ..RequestKind::new("variable", "environment variable NVIDIA_IMEX_CHANNELS")
        },
        RequestKind {
            env: json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "management.nvidia.com/gpu=all"}]),
            ..RequestKind::new("management", "every IMEX channel")
        },
        RequestKind {
            annotations: json!({"nvidia.cdi.k8s.io/container.main": channel}),
            ..RequestKind::new("annotation", "annotation nvidia.cdi.k8s.io/container.main")
        },
        RequestKind {
            annotations: json!({"cdi.k8s.io/any": channel}),
            ..RequestKind::new("cdi-annotation", "annotation cdi.k8s.io/any")
        },
        RequestKind {
            host_path: Some((CHANNELS, "/channels")),
            ..RequestKind::new("directory", "mount at /channels")
        },
        RequestKind {
            host_path: Some(("/dev/nvidia-caps-imex-channels/channel9", "/dev/mine")),
            ..RequestKind::new("made-by-hand", "IMEX channel 9 (mount at /dev/mine)")
        },
        RequestKind {
            host_path: Some(("/dev/null", "/var/run/nvidia-container-devices/imex/3")),
            ..RequestKind::new("volume", "IMEX channel 3 (mount at /var/run")
        },
    ]
}

/// Creates device nodes, as an administrator would for pods without claims.
fn make_nodes(cluster: &Cluster) -> Result<()> {
    let major = fixtures::mock_major(cluster, 1)?;
    let mknod =
        |path: &str, minor: u32| format!("test -e {path} || mknod {path} c {major} {minor}");
    let (channel, alias) = (mknod(&format!("{CHANNELS}/channel9"), 9), mknod(ALIAS, 9));
    cluster.on_node(1, &format!("mkdir -p {CHANNELS} && {channel} && {alias}"))?;
    let spec = json!({
        "cdiVersion": "0.5.0",
        "kind": "example.com/fabric",
        "devices": [
            {"name": "all", "containerEdits": {"deviceNodes": [{
                "path": "/dev/fabric", "type": "c", "major": major, "minor": 9,
            }]}},
            {"name": "light", "containerEdits": {"env": ["LIGHT=on"]}},
        ],
    });
    cluster.on_node(1, &format!("echo '{spec}' >{FABRIC_SPEC}"))?;
    Ok(())
}

fn phase_of(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<String> {
    let phase = "jsonpath={.status.phase}";
    cluster.kubectl(&["get", "pod", pod, "-n", &namespace.name, "-o", phase])
}

// === impl Door ===

impl RequestKind {
    fn new(name: &'static str, word: &'static str) -> Self {
        Self {
            name,
            word,
            annotations: json!({}),
            env: json!([]),
            host_path: None,
            is_privileged: false,
        }
    }

    /// The pod, on node 1 and without a claim.
    fn pod(&self, namespace: &Namespace) -> String {
        let mounts = self.host_path.iter();
        let mounts: Vec<_> = mounts
            .map(|(_, path)| json!({"name": "door", "mountPath": path}))
            .collect();
        let volumes = self.host_path.iter();
        let volumes: Vec<_> = volumes
            .map(|(path, _)| json!({"name": "door", "hostPath": {"path": path}}))
            .collect();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": namespace.name, "annotations": self.annotations},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "nodeSelector": {"kubernetes.io/hostname": "node1"},
                "volumes": volumes,
                "hostNetwork": self.is_privileged,
                "hostPID": self.is_privileged,
                "containers": [{
                    "name": "main",
                    "image": "localhost/busybox:1",
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", SLEEP],
                    "env": self.env,
                    "securityContext": {"privileged": self.is_privileged},
                    "volumeMounts": mounts,
                }],
            },
        })
        .to_string()
    }
}
