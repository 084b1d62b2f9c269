//! The plugin on a fake runtime: what pods with the annotation get.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../../../cdi/cli/tests/support/prepared.rs"]
mod prepared;

use std::path::Path;
use std::sync::Arc;

use dra_checkpoint::BootId;
use durable_file::OsDir;
use imex_annotation::{ANNOTATION, Annotations, Paths, Record, Records, records_in};
use nri_plugin::Service;
use nri_plugin::api::{Container, ContainerAdjustment, LinuxContainer, LinuxDevice, PodSandbox};
use nri_plugin::testing::{FakeRuntime, Options, Release};
use tempfile::TempDir;

const LIST: &str = "team-a=1,8-15\nteam-b=1-9";

/// A node with the plugin, registered.
struct Node {
    scratch: TempDir,
    runtime: FakeRuntime,
    service: Service,
}

impl Node {
    async fn start(list: &str, options: Options) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        std::fs::create_dir(path("records")).unwrap();
        std::fs::write(
            path("devices"),
            "Character devices:\n235 nvidia-caps-imex-channels\n",
        )
        .unwrap();
        let runtime = FakeRuntime::start(path("nri.sock"), options).unwrap();
        let service = service(scratch.path(), list);
        runtime.wait_registered().await;
        Self {
            scratch,
            runtime,
            service,
        }
    }

    fn records(&self) -> Vec<Record> {
        records_in(&self.scratch.path().join("records")).unwrap()
    }

    async fn create(&self, pod: &PodSandbox) -> Result<ContainerAdjustment, String> {
        let created = self
            .runtime
            .create_container(pod, &Container::default())
            .await;
        created
            .map(|created| created.adjustment)
            .map_err(|error| error.to_string())
    }
}

fn service(scratch: &Path, list: &str) -> Service {
    let records = Records::new(Arc::new(OsDir::open(scratch.join("records")).unwrap()));
    let paths = Paths {
        proc_devices: scratch.join("devices"),
        driver_params: scratch.join("params"),
        checkpoint: scratch.join("checkpoint.json"),
    };
    let plugin = Annotations::new(list.parse().unwrap(), paths, records);
    let builder = Service::builder(50, "imex-annotation").socket(scratch.join("nri.sock"));
    builder.start(plugin).unwrap()
}

/// A container as the runtime names it, with the channel.
fn container_with(id: &str, sandbox: &str, channel: u32) -> Container {
    let device = LinuxDevice {
        path: format!("/dev/nvidia-caps-imex-channels/channel{channel}"),
        ..LinuxDevice::default()
    };
    Container {
        id: id.to_owned(),
        pod_sandbox_id: sandbox.to_owned(),
        linux: Some(LinuxContainer {
            devices: vec![device],
            ..LinuxContainer::default()
        }),
        ..Container::default()
    }
}

fn pod(id: &str, namespace: &str, channel: &str) -> PodSandbox {
    PodSandbox {
        id: id.to_owned(),
        uid: format!("uid-{id}"),
        name: format!("pod-{id}"),
        namespace: namespace.to_owned(),
        annotations: [(ANNOTATION.to_owned(), channel.to_owned())].into(),
        ..PodSandbox::default()
    }
}

// req: NRI-18
#[tokio::test]
async fn a_pod_with_the_annotation_gets_the_channels_node_and_is_recorded_until_it_is_gone() {
    for release in [Release::Containerd1_7, Release::Containerd2_3] {
        let node = Node::start(
            LIST,
            Options {
                release,
                ..Options::default()
            },
        )
        .await;
        let job = pod("s1", "team-a", "9");
        let linux = node.create(&job).await.unwrap().linux.unwrap();
        let [device] = &linux.devices[..] else {
            panic!("{linux:?}")
        };
        assert_eq!(device.path, "/dev/nvidia-caps-imex-channels/channel9");
        assert_eq!(
            (device.major, device.minor, device.r#type.as_str()),
            (235, 9, "c")
        );
        let found = node.records();
        let [record] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((record.pod_uid.as_str(), record.channel), ("uid-s1", 9));
        node.runtime.remove_pod_sandbox(&job).await.unwrap();
        assert_eq!(node.records(), []);
        node.service.shutdown().await;
    }
}

// req: NRI-18
#[tokio::test]
async fn a_pod_without_the_annotation_gets_nothing() {
    let node = Node::start(LIST, Options::default()).await;
    let mut plain = pod("s1", "team-a", "9");
    plain.annotations.clear();
    assert_eq!(
        node.create(&plain).await.unwrap(),
        ContainerAdjustment::default()
    );
    assert_eq!(node.records(), []);
}

// req: NRI-18
#[tokio::test]
async fn what_the_node_does_not_allow_is_refused_and_not_recorded() {
    let node = Node::start(LIST, Options::default()).await;
    for (namespace, channel, reason) in [
        ("team-a", "2", "does not allow in namespace team-a"),
        ("default", "1", "does not allow in namespace default"),
        ("team-a", "one", "is \"one\", which is not the number"),
    ] {
        let refused = node
            .create(&pod("s1", namespace, channel))
            .await
            .unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    assert_eq!(node.records(), []);
    let off = Node::start("", Options::default()).await;
    assert!(off.create(&pod("s1", "team-a", "1")).await.is_err());
}

// req: NRI-19
#[tokio::test]
async fn pods_of_a_namespace_share_a_channel_and_another_namespace_does_not_get_it() {
    let node = Node::start(LIST, Options::default()).await;
    node.create(&pod("s1", "team-a", "1")).await.unwrap();
    node.create(&pod("s2", "team-a", "1")).await.unwrap();
    let refused = node.create(&pod("s3", "team-b", "1")).await.unwrap_err();
    assert!(
        refused.contains("in use on this node by pod team-a/pod-s1"),
        "{refused}"
    );
    node.create(&pod("s3", "team-b", "2")).await.unwrap();
}

// req: NRI-19
#[tokio::test]
async fn a_channel_of_a_prepared_claim_is_refused_in_this_boot() {
    let node = Node::start(LIST, Options::default()).await;
    let claim = prepared::Prepared::new("11111111-aaaa-4bbb-8ccc-000000000001", "a-domain", 8);
    let boot = BootId::current().unwrap();
    prepared::write_checkpoint(
        node.scratch.path(),
        boot.as_str(),
        std::slice::from_ref(&claim),
    );
    let refused = node.create(&pod("s1", "team-a", "8")).await.unwrap_err();
    assert!(
        refused.contains("by ResourceClaim default/worker-"),
        "{refused}"
    );
    assert_eq!(node.records(), []);
    node.create(&pod("s1", "team-a", "9")).await.unwrap();
    prepared::write_checkpoint(node.scratch.path(), "an-earlier-boot", &[claim]);
    node.create(&pod("s2", "team-a", "8")).await.unwrap();
}

#[tokio::test]
async fn the_runtimes_configuration_is_the_nodes_list() {
    let config = "team-c = 3".to_owned();
    let node = Node::start(
        LIST,
        Options {
            config,
            ..Options::default()
        },
    )
    .await;
    node.create(&pod("s1", "team-c", "3")).await.unwrap();
    assert!(node.create(&pod("s2", "team-a", "1")).await.is_err());
}

// req: NRI-20
#[tokio::test]
async fn records_survive_a_restart_but_for_those_of_pods_that_are_gone() {
    // The third has ended: the runtime has its sandbox, and no container of it.
    let pods = vec![pod("s1", "team-a", "1"), pod("s3", "team-a", "9")];
    let options = Options {
        pods,
        containers: vec![container_with("c1", "s1", 1)],
        ..Options::default()
    };
    let node = Node::start(LIST, options).await;
    node.create(&pod("s1", "team-a", "1")).await.unwrap();
    node.create(&pod("s3", "team-a", "9")).await.unwrap();
    node.create(&pod("s2", "team-a", "8")).await.unwrap();
    let Node {
        scratch,
        runtime,
        service,
    } = node;
    service.shutdown().await;
    runtime.wait_gone().await;
    let restarted = self::service(scratch.path(), LIST);
    runtime.wait_registered().await;
    let found = records_in(&scratch.path().join("records")).unwrap();
    let sandboxes: Vec<_> = found.iter().map(|record| record.sandbox.as_str()).collect();
    assert_eq!(sandboxes, ["s1"]);
    restarted.shutdown().await;
}

/// As containerd up to 2.3, which after its restart tells nothing of sandboxes that it had.
// req: NRI-20
#[tokio::test]
async fn a_pods_channel_is_free_when_its_last_container_is_removed() {
    let options = Options {
        pods: vec![pod("s1", "team-a", "1")],
        containers: vec![container_with("c1", "s1", 1)],
        ..Options::default()
    };
    let node = Node::start(LIST, options).await;
    let (job, other) = (pod("s1", "team-a", "1"), pod("s2", "team-b", "1"));
    let again = Container {
        id: "c2".to_owned(),
        ..Container::default()
    };
    let created = node.runtime.create_container(&job, &again).await;
    created.unwrap();
    // One that is refused does not count: the runtime tells nothing more of it.
    node.create(&other).await.unwrap_err();
    let first = container_with("c1", "s1", 1);
    node.runtime.remove_container(&job, &first).await.unwrap();
    node.create(&other).await.unwrap_err();
    node.runtime.remove_container(&job, &again).await.unwrap();
    assert_eq!(node.records(), []);
    node.create(&other).await.unwrap();
}

// req: NRI-20
#[tokio::test]
async fn a_pod_that_runs_keeps_its_channel_when_its_record_is_lost_or_damaged() {
    let options = Options {
        pods: vec![pod("s1", "team-a", "1")],
        containers: vec![container_with("c1", "s1", 1)],
        ..Options::default()
    };
    let node = Node::start(LIST, options).await;
    let mut service = node.service;
    for damage in [None, Some("{")] {
        service.shutdown().await;
        node.runtime.wait_gone().await;
        let file = node.scratch.path().join("records/s1.json");
        match damage {
            None => std::fs::remove_file(&file).unwrap(),
            Some(text) => std::fs::write(&file, text).unwrap(),
        }
        service = self::service(node.scratch.path(), LIST);
        node.runtime.wait_registered().await;
        let other = pod("s2", "team-b", "1");
        let created = node
            .runtime
            .create_container(&other, &Container::default())
            .await;
        let refused = created.unwrap_err().to_string();
        assert!(refused.contains("by pod team-a/pod-s1"), "{refused}");
    }
}

#[tokio::test]
async fn a_channel_that_the_driver_does_not_have_is_refused() {
    let node = Node::start(LIST, Options::default()).await;
    std::fs::write(node.scratch.path().join("params"), "ImexChannelCount: 9\n").unwrap();
    let refused = node.create(&pod("s1", "team-a", "9")).await.unwrap_err();
    assert!(refused.contains("has 9 channels"), "{refused}");
    assert_eq!(node.records(), []);
    node.create(&pod("s1", "team-a", "8")).await.unwrap();
}

#[tokio::test]
async fn without_a_driver_or_with_a_damaged_checkpoint_the_container_is_refused() {
    let node = Node::start(LIST, Options::default()).await;
    std::fs::write(node.scratch.path().join("checkpoint.json"), "{").unwrap();
    let refused = node.create(&pod("s1", "team-a", "1")).await.unwrap_err();
    assert!(refused.contains("is damaged"), "{refused}");
    std::fs::write(node.scratch.path().join("devices"), "Character devices:\n").unwrap();
    let refused = node.create(&pod("s1", "team-a", "1")).await.unwrap_err();
    assert!(
        refused.contains("this node has no IMEX channels"),
        "{refused}"
    );
    assert_eq!(node.records(), []);
}
