use compute_domain_api::names::DRIVER_NAME;
use futures_util::FutureExt as _;
use nri_plugin::api::{
    CdiDevice, LinuxContainer, LinuxDevice, LinuxDeviceCgroup, LinuxResources, Mount, OptionalInt64,
};
use nri_plugin::testing::{CallError, FakeRuntime, Options, Release};
use plugin_parts::{ClaimLookup, PodLookup};
use prometheus_client::registry::Registry;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::node_metrics::NodeMetrics;
use crate::tests::api_server::{ApiServer, DOMAIN};
use crate::tests::node::{NODE, TestNode};
use crate::tests::requests::of_table;

const GIVE_UP: Duration = Duration::from_secs(30);
const NODE_PATH: &str = "/dev/nvidia-caps-imex-channels/channel0";

/// The guard with a runtime and an API server, both in process, on a node with claims.
pub(super) struct Guarded {
    pub(super) server: ApiServer,
    node: TestNode,
    runtime: FakeRuntime,
    service: Service,
    registry: Registry,
    directory: TempDir,
}

impl Guarded {
    pub(super) async fn start(mode: Mode) -> Self {
        Self::start_with(mode, Options::default()).await
    }

    async fn start_with(mode: Mode, options: Options) -> Self {
        Self::start_on(mode, options, |_| {}).await
    }

    /// Starts on a host whose directory `lay_out` fills.
    pub(super) async fn start_on(
        mode: Mode,
        options: Options,
        lay_out: impl FnOnce(&Path),
    ) -> Self {
        let server = ApiServer::default();
        server.put_domain("ns", "train", DOMAIN);
        let node = TestNode::start(&server);
        let mut registry = Registry::default();
        let metrics = NodeMetrics::register(&mut registry);
        let client = server.client();
        let directory = tempfile::tempdir().unwrap();
        lay_out(directory.path());
        let guard = NriGuard {
            mode,
            exempt: Arc::new(["gpu-operator".to_owned()].into()),
            shared_claims: node.driver.shared_claims.clone(),
            hardware: Arc::clone(&node.driver.hardware),
            pods: PodClaims::new(
                PodLookup::new(client.clone(), NODE),
                ClaimLookup::new(client.clone(), DRIVER_NAME, NODE),
            ),
            host_devices: HostDevices::new(vec![
                directory.path().join("etc-cdi"),
                directory.path().join("run-cdi"),
            ]),
            reports: Reports {
                events: daemon_runtime::Events::new(client, "test", NODE),
                metrics,
                own_namespace: "imex-dra".into(),
            },
            starts_anyway: Arc::default(),
        };
        let socket = directory.path().join("nri.sock");
        let runtime = FakeRuntime::start(&socket, options).unwrap();
        let service = guard.start(&socket).unwrap();
        runtime.wait_registered().await;
        Self {
            server,
            node,
            runtime,
            service,
            registry,
            directory,
        }
    }

    /// Prepares a claim of this name for the pods with these UIDs.
    pub(super) async fn prepare(&self, claim: &str, pods: &[&str]) {
        self.server.put_claim("ns", claim);
        self.server.change_claim("ns", claim, |claim| {
            let consumer = |pod: &&str| json!({"resource": "pods", "name": pod, "uid": pod});
            claim["status"]["reservedFor"] = pods.iter().map(consumer).collect();
        });
        self.node.prepare("ns", claim).await.unwrap();
        self.server.requests();
    }

    /// Prepares a claim of this name for a group of pods.
    async fn prepare_for_group(&self, claim: &str, group: &str) {
        self.server.put_claim("ns", claim);
        self.server.change_claim("ns", claim, |claim| {
            claim["status"]["reservedFor"] = json!([{
                "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": group, "uid": group,
            }]);
        });
        self.node.prepare("ns", claim).await.unwrap();
        self.server.requests();
    }

    pub(super) async fn create(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), String> {
        let created = self.runtime.create_container(pod, container).await;
        created.map(drop).map_err(sentence_of)
    }

    /// Writes a CDI spec of the host.
    pub(super) fn write_spec(&self, name: &str, text: &str) {
        let specs = self.directory.path().join("etc-cdi");
        std::fs::create_dir_all(&specs).unwrap();
        std::fs::write(specs.join(name), text).unwrap();
    }

    /// Waits for the next event.
    pub(super) async fn event(&self) -> String {
        loop {
            if let Some(event) = self.server.events().pop() {
                return event;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn counted(&self, moment: &str, outcome: &str) -> bool {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let series = format!(
            "imex_dra_guarded_containers_total{{moment=\"{moment}\",outcome=\"{outcome}\"}}"
        );
        text.contains(&series)
    }
}

fn sentence_of(error: CallError) -> String {
    match error {
        CallError::Refused(sentence) => sentence,
        other => panic!("{other:?}"),
    }
}

pub(super) fn mk_pod(uid: &str) -> PodSandbox {
    PodSandbox {
        id: format!("sandbox-of-{uid}"),
        name: uid.to_owned(),
        uid: uid.to_owned(),
        namespace: "ns".to_owned(),
        ..PodSandbox::default()
    }
}

pub(super) fn mk_container() -> Container {
    Container {
        id: "c1".to_owned(),
        name: "main".to_owned(),
        env: vec!["PATH=/bin".to_owned()],
        ..Container::default()
    }
}

pub(super) fn with_env(assignment: &str) -> Container {
    Container {
        env: vec![assignment.to_owned()],
        ..mk_container()
    }
}

fn with_linux(devices: Vec<LinuxDevice>, rules: Vec<LinuxDeviceCgroup>) -> Container {
    let resources = LinuxResources {
        devices: rules,
        ..LinuxResources::default()
    };
    Container {
        linux: Some(LinuxContainer {
            devices,
            resources: Some(resources),
            ..LinuxContainer::default()
        }),
        ..mk_container()
    }
}

fn channel0() -> LinuxDevice {
    LinuxDevice {
        path: NODE_PATH.to_owned(),
        r#type: "c".to_owned(),
        major: 235,
        minor: 0,
        ..LinuxDevice::default()
    }
}

fn rule(major: Option<i64>) -> LinuxDeviceCgroup {
    let number = |value| OptionalInt64 { value };
    LinuxDeviceCgroup {
        allow: true,
        r#type: if major.is_some() { "c" } else { "" }.to_owned(),
        major: major.map(number),
        minor: major.map(|_| number(0)),
        access: "rwm".to_owned(),
    }
}

/// The container that a runtime creates for a claim.
pub(super) fn of_claim(claim: &str) -> Container {
    Container {
        cdi_devices: vec![CdiDevice {
            name: format!("k8s.compute-domain.nvidia.com/claim={claim}-channel-0"),
        }],
        ..with_linux(vec![channel0()], vec![rule(Some(235))])
    }
}

/// A privileged container on a host with channels.
fn privileged() -> Container {
    with_linux(vec![channel0()], vec![rule(None)])
}

/// Each way to request channel 0 without a claim.
fn doors() -> Vec<(PodSandbox, Container)> {
    let mount = |source: &str, destination: &str| Container {
        mounts: vec![Mount {
            source: source.to_owned(),
            destination: destination.to_owned(),
            ..Mount::default()
        }],
        ..mk_container()
    };
    let annotated = |key: &str| {
        let mut pod = mk_pod("outsider");
        let name = "nvidia.com/imex-channel=0".to_owned();
        pod.annotations.insert(key.to_owned(), name);
        (pod, mk_container())
    };
    let outsider = |container| (mk_pod("outsider"), container);
    vec![
        outsider(with_env("NVIDIA_IMEX_CHANNELS=0")),
        outsider(with_env("NVIDIA_IMEX_CHANNELS=all")),
        outsider(with_env(
            "NVIDIA_VISIBLE_DEVICES=management.nvidia.com/gpu=all",
        )),
        annotated("cdi.k8s.io/any"),
        annotated("nvidia.cdi.k8s.io/container.main"),
        outsider(mount("/dev/nvidia-caps-imex-channels", "/mnt")),
        outsider(mount(
            "/dev/null",
            "/var/run/nvidia-container-devices/imex/0",
        )),
        outsider(with_linux(vec![channel0()], Vec::new())),
        outsider(with_linux(Vec::new(), vec![rule(Some(235))])),
        outsider(of_claim("others")),
    ]
}

// req: NRI-12
#[tokio::test]
async fn every_request_without_a_claim_is_refused_or_only_reported() {
    for mode in [Mode::Enforce, Mode::Warn] {
        let guarded = Guarded::start(mode).await;
        for (pod, container) in doors() {
            let created = guarded.create(&pod, &container).await;
            let event = guarded.event().await;
            assert!(
                event.starts_with(
                    "Warning ChannelWithoutClaim: container main: the container asks for "
                ),
                "{event}"
            );
            match (mode, created) {
                (Mode::Enforce, Err(sentence)) => {
                    assert!(
                        event.contains(&sentence) && event.ends_with("; the container is refused"),
                        "{event}"
                    );
                    assert!(sentence.contains("resourceClaimTemplate"), "{sentence}");
                }
                (_, created) => {
                    assert_eq!((mode, created), (Mode::Warn, Ok(())));
                    assert!(
                        event.ends_with("the container is allowed (nriGuard.mode: warn)"),
                        "{event}"
                    );
                }
            }
            let started = guarded.runtime.start_container(&pod, &container).await;
            assert_eq!(started.is_err(), mode == Mode::Enforce);
        }
        assert!(guarded.counted(
            "create",
            if mode == Mode::Warn {
                "told"
            } else {
                "refused"
            }
        ));
        assert!(
            guarded.server.requests().is_empty(),
            "no claim has the channel"
        );
        guarded.service.shutdown().await;
    }
}

// req: NRI-13
#[tokio::test]
async fn a_pod_with_a_claim_or_without_a_channel_starts_without_an_api_request() {
    let guarded = Guarded::start(Mode::Enforce).await;
    guarded.prepare("train-1", &["worker"]).await;
    for container in [
        mk_container(),
        of_claim("train-1"),
        with_env("NVIDIA_IMEX_CHANNELS=0"),
    ] {
        guarded.create(&mk_pod("worker"), &container).await.unwrap();
        guarded
            .runtime
            .start_container(&mk_pod("worker"), &container)
            .await
            .unwrap();
    }
    let refused = guarded
        .create(&mk_pod("worker"), &with_env("NVIDIA_IMEX_CHANNELS=0,1"))
        .await;
    assert!(
        refused.unwrap_err().contains("IMEX channel 1"),
        "not channel 0"
    );
    assert_eq!(guarded.server.requests(), [""; 0]);
}

/// A claim reserved for a group names no pod: a pod that names the claim is in the group.
// req: NRI-14
#[tokio::test]
async fn only_pods_of_the_group_for_which_a_claim_is_reserved_start() {
    let guarded = Guarded::start(Mode::Enforce).await;
    guarded.prepare_for_group("train-1", "workers").await;
    guarded.server.put_pod("ns", "train-1", "Pending");
    let mut member = mk_pod("pod-of-the-claim");
    member.name = "pod".to_owned();
    let container = of_claim("train-1");
    guarded.create(&member, &container).await.unwrap();
    let start = guarded.runtime.start_container(&member, &container);
    start.await.unwrap();
    assert!(guarded.counted("create", "explained"));
    // A pod without a claim that has the group's name.
    let sentence = guarded.create(&mk_pod("workers"), &container).await;
    assert!(
        sentence
            .unwrap_err()
            .contains("has the channel, but belongs to other pods")
    );
}

// req: NRI-14
#[tokio::test]
async fn a_further_pod_of_a_shared_claim_costs_one_request_however_often_it_restarts() {
    let guarded = Guarded::start(Mode::Enforce).await;
    guarded.prepare("train-1", &["first"]).await;
    guarded.server.put_pod("ns", "train-1", "Pending");
    let mut further = mk_pod("pod-of-the-claim");
    further.name = "pod".to_owned();
    for _ in 0..3 {
        guarded
            .create(&further, &of_claim("train-1"))
            .await
            .unwrap();
        guarded
            .runtime
            .start_container(&further, &of_claim("train-1"))
            .await
            .unwrap();
    }
    let event = "guard: containers of a further pod of a shared claim, and their restarts";
    assert_eq!(guarded.server.requests(), of_table(event));

    let stranger = guarded
        .create(&mk_pod("stranger"), &of_claim("train-1"))
        .await;
    let sentence = stranger.unwrap_err();
    assert!(
        sentence.contains("claim train-1 has the channel, but belongs to other pods"),
        "{sentence}"
    );
    // Another pod of the same name: deleted and created again.
    let mut impostor = further.clone();
    impostor.uid = "another".to_owned();
    guarded
        .create(&impostor, &of_claim("train-1"))
        .await
        .unwrap_err();
    let mut elsewhere = further.clone();
    elsewhere.namespace = "other".to_owned();
    elsewhere.uid = "elsewhere".to_owned();
    guarded.server.requests();
    guarded
        .create(&elsewhere, &of_claim("train-1"))
        .await
        .unwrap_err();
    assert_eq!(
        guarded.server.requests(),
        [""; 0],
        "claims are of their namespace"
    );
}

// req: NRI-15
#[tokio::test]
async fn an_unknown_result_is_allowed_by_warn_and_refused_by_enforce() {
    for mode in [Mode::Warn, Mode::Enforce] {
        let guarded = Guarded::start(mode).await;
        guarded.prepare("train-1", &["first"]).await;
        guarded.server.refuse(Some((403, "{}")));
        let created = guarded
            .create(&mk_pod("further"), &of_claim("train-1"))
            .await;
        assert_eq!(created.is_err(), mode == Mode::Enforce);
        if let Err(sentence) = created {
            assert!(
                sentence.contains("cannot check") && sentence.ends_with("kubelet retries"),
                "{sentence}"
            );
        }
        let event = guarded.event().await;
        assert!(event.starts_with("Warning ChannelNotChecked"), "{event}");

        guarded
            .node
            .driver
            .shared_claims
            .set_unavailable("the checkpoint is being opened");
        let created = guarded.create(&mk_pod("first"), &of_claim("train-1")).await;
        assert_eq!(created.is_err(), mode == Mode::Enforce);
        guarded
            .create(&mk_pod("first"), &mk_container())
            .await
            .unwrap();
        let unknown = if mode == Mode::Warn {
            "unknown"
        } else {
            "unknown-refused"
        };
        assert!(guarded.counted("create", unknown));
    }
}

/// Returns when the guard waits for the checkpoint.
async fn is_awaited(shared_claims: &SharedClaims) {
    let waits = async {
        while !shared_claims.is_awaited() {
            tokio::task::yield_now().await;
        }
    };
    timeout(GIVE_UP, waits)
        .await
        .expect("the guard does not wait");
}

// req: NRI-15
#[tokio::test]
async fn the_guard_waits_while_the_checkpoint_is_opened_for_the_first_time() {
    let guarded = Guarded::start(Mode::Enforce).await;
    guarded.prepare("train-1", &["first"]).await;
    let shared_claims = guarded.node.driver.shared_claims.clone();
    let claims = shared_claims.get().unwrap();

    shared_claims.set_opening();
    let (pod, container) = (mk_pod("first"), of_claim("train-1"));
    let (created, ()) = tokio::join!(guarded.create(&pod, &container), async {
        is_awaited(&shared_claims).await;
        shared_claims.set_available(Arc::clone(&claims));
    });
    created.unwrap();
    assert!(guarded.server.events().is_empty());

    // The runtime does not call the guard about containers before, either.
    shared_claims.set_opening();
    guarded.runtime.restart().await.unwrap();
    is_awaited(&shared_claims).await;
    assert!(guarded.runtime.wait_registered().now_or_never().is_none());
    shared_claims.set_available(claims);
    guarded.runtime.wait_registered().await;
}

// req: NRI-22
#[tokio::test]
async fn no_event_claims_a_refusal_if_the_runtime_starts_the_container_anyway() {
    let options = Options {
        release: Release::CriO1_34,
        ..Options::default()
    };
    let guarded = Guarded::start_with(Mode::Enforce, options).await;
    guarded.prepare("train-1", &["first"]).await;
    let (pod, container) = (mk_pod("other"), of_claim("train-1"));
    guarded.create(&pod, &container).await.unwrap_err();
    let event = guarded.event().await;
    assert!(event.ends_with("the container is refused"), "{event}");

    let started = guarded.runtime.start_container(&pod, &container).await;
    started.unwrap_err();
    let event = guarded.event().await;
    assert!(
        event.contains("CRI-O starts it anyway, because another NRI plugin"),
        "{event}"
    );
    assert!(guarded.counted("start", "told"));
}

// req: NRI-16
#[tokio::test]
async fn a_privileged_container_is_only_reported_unless_it_names_a_channel() {
    let guarded = Guarded::start(Mode::Enforce).await;
    guarded
        .create(&mk_pod("admin"), &privileged())
        .await
        .unwrap();
    let event = guarded.event().await;
    assert!(
        event.starts_with("Normal EveryChannel: container main is privileged"),
        "{event}"
    );
    let mut own = mk_pod("plugin");
    own.namespace = "imex-dra".to_owned();
    guarded.create(&own, &privileged()).await.unwrap();

    let asks = Container {
        env: vec!["NVIDIA_IMEX_CHANNELS=3".to_owned()],
        ..privileged()
    };
    let refused = guarded.create(&mk_pod("admin"), &asks).await.unwrap_err();
    assert!(
        refused.contains("privileged containers also need a claim"),
        "{refused}"
    );
    let event = guarded.event().await;
    assert!(
        event.starts_with("Warning ChannelWithoutClaim"),
        "not of the plugin's own pod: {event}"
    );
    assert!(guarded.counted("create", "every-device"));
}

// req: NRI-16
#[tokio::test]
async fn pods_of_an_exempt_namespace_are_ignored() {
    let guarded = Guarded::start(Mode::Enforce).await;
    for (mut pod, container) in doors() {
        pod.namespace = "gpu-operator".to_owned();
        guarded.create(&pod, &container).await.unwrap();
    }
    assert!(guarded.counted("create", "exempt"));
}

// req: NRI-17
#[tokio::test]
async fn a_running_container_is_reported_and_not_stopped() {
    let running = |uid: &str, container: Container| Container {
        pod_sandbox_id: mk_pod(uid).id,
        ..container
    };
    let options = Options {
        pods: vec![mk_pod("outsider"), mk_pod("innocent")],
        containers: vec![
            running("outsider", with_env("NVIDIA_IMEX_CHANNELS=0")),
            running("innocent", mk_container()),
        ],
        ..Options::default()
    };
    let guarded = Guarded::start_with(Mode::Enforce, options).await;
    let event = guarded.event().await;
    assert!(
        event.starts_with("Warning ChannelWithoutClaim")
            && event.ends_with("; the container was already running and keeps running"),
        "{event}"
    );
    assert!(guarded.counted("synchronize", "told"));
}
