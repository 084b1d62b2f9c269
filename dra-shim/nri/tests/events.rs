//! Every event and answer, with every release of the fake runtime.

use nri_plugin::api::{
    Container, ContainerAdjustment, LinuxContainerAdjustment, LinuxCpu, LinuxMemoryPolicy,
    LinuxResources, OptionalInt, OptionalUInt64, PodSandbox, ValidateContainerAdjustmentRequest,
};
use nri_plugin::testing::{CallError, FakeRuntime, Options, Release};
use nri_plugin::{
    Changes, Context, Creation, Events, Late, Plugin, Refusal, Service, State, UpdateError,
};

use crate::support::{Node, mk_container, mk_pod, mk_update};

fn mk_options(release: Release) -> Options {
    Options {
        release,
        ..Default::default()
    }
}

fn mk_resources(shares: u64) -> LinuxResources {
    let cpu = LinuxCpu {
        shares: Some(OptionalUInt64 { value: shares }),
        ..Default::default()
    };
    LinuxResources {
        cpu: Some(cpu),
        ..Default::default()
    }
}

#[tokio::test]
async fn every_event_reaches_its_method_on_every_runtime() {
    for release in [
        Release::Containerd1_7,
        Release::Containerd2_1,
        Release::CriO1_34,
        Release::Containerd2_2,
        Release::Containerd2_3,
    ] {
        let Node {
            runtime,
            mut noted,
            service: _service,
            ..
        } = Node::start(mk_options(release), Late::Allow).await;
        let (pod, container) = (mk_pod("pod"), mk_container("one"));
        runtime.run_pod_sandbox(&pod).await.unwrap();
        assert_eq!(noted.next().await, "run_pod_sandbox pod");
        let creation = runtime.create_container(&pod, &container).await.unwrap();
        assert_eq!(noted.next().await, "create_container pod/one");
        assert_eq!(creation.adjustment.env[0].key, "NOTE");
        assert_eq!(creation.changes.updates, [mk_update("other")]);
        runtime
            .post_create_container(&pod, &container)
            .await
            .unwrap();
        assert_eq!(noted.next().await, "post_create_container one");
        runtime.start_container(&pod, &container).await.unwrap();
        assert_eq!(noted.next().await, "start_container one");
        runtime
            .post_start_container(&pod, &container)
            .await
            .unwrap();
        assert_eq!(noted.next().await, "post_start_container one");
        let changes = runtime
            .update_container(&pod, &container, &mk_resources(9))
            .await
            .unwrap();
        assert_eq!(noted.next().await, "update_container one 9");
        assert_eq!(changes.updates, [mk_update("updated")]);
        runtime
            .post_update_container(&pod, &container)
            .await
            .unwrap();
        assert_eq!(noted.next().await, "post_update_container one");
        let updates = runtime.stop_container(&pod, &container).await.unwrap();
        assert_eq!(noted.next().await, "stop_container one");
        assert_eq!(updates, [mk_update("heir")]);
        runtime.remove_container(&pod, &container).await.unwrap();
        assert_eq!(noted.next().await, "remove_container one");
        runtime.stop_pod_sandbox(&pod).await.unwrap();
        assert_eq!(noted.next().await, "stop_pod_sandbox pod");
        runtime.remove_pod_sandbox(&pod).await.unwrap();
        assert_eq!(noted.next().await, "remove_pod_sandbox pod");
    }
}

#[tokio::test]
async fn newer_events_happen_on_runtimes_that_know_them() {
    for release in [Release::Containerd2_2, Release::Containerd2_3] {
        let Node {
            runtime,
            mut noted,
            service: _service,
            ..
        } = Node::start(mk_options(release), Late::Allow).await;
        let (pod, none) = (mk_pod("pod"), LinuxResources::default());
        runtime
            .update_pod_sandbox(&pod, &none, &mk_resources(7))
            .await
            .unwrap();
        assert_eq!(noted.next().await, "update_pod_sandbox pod 7");
        runtime.post_update_pod_sandbox(&pod).await.unwrap();
        assert_eq!(noted.next().await, "post_update_pod_sandbox pod");
        let mut request = ValidateContainerAdjustmentRequest {
            container: Some(mk_container("valid")),
            ..Default::default()
        };
        runtime.validate(&request).await.unwrap();
        assert_eq!(noted.next().await, "validate valid");
        request.container = Some(mk_container("invalid"));
        let refused = runtime.validate(&request).await.unwrap_err();
        assert_eq!(
            refused,
            CallError::Refused("this adjustment goes too far".into())
        );
    }
}

// req: NRI-2
#[tokio::test]
async fn no_subscription_to_events_that_an_older_runtime_does_not_know() {
    for release in [Release::Containerd2_1, Release::CriO1_34] {
        let node = Node::start(mk_options(release), Late::Allow).await;
        let registered = node.runtime.wait_registered().await;
        assert!(!registered.events.contains(Events::VALIDATE));
        assert!(registered.events.contains(Events::CREATE_CONTAINER));
        let state = crate::support::wait_state(&node.service, State::is_registered).await;
        let State::Registered(runtime) = state else {
            panic!("{state:?}")
        };
        assert_eq!(
            runtime.unknown_events.to_string(),
            "UpdatePodSandbox, PostUpdatePodSandbox, ValidateContainerAdjustment"
        );
        assert!(node.runtime.failures().is_empty());
    }
}

/// Adds a CDI device and arguments.
struct Adds;

impl Plugin for Adds {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER
    }

    async fn create_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        _: &Container,
    ) -> Result<Creation, Refusal> {
        let mut adjustment = ContainerAdjustment::default()
            .with_env("KNOWN", "x")
            .with_cdi_device("vendor.example.com/lamp=0");
        adjustment.args = vec!["sleep".into()];
        adjustment.linux = Some(LinuxContainerAdjustment {
            oom_score_adj: Some(OptionalInt { value: 5 }),
            memory_policy: Some(LinuxMemoryPolicy::default()),
            ..Default::default()
        });
        Ok(adjustment.into())
    }
}

#[tokio::test]
async fn an_older_runtime_ignores_unknown_fields_of_an_adjustment() {
    for (release, left) in [
        (Release::Containerd1_7, [false, false, false, false]),
        (Release::Containerd2_1, [true, false, true, false]),
        (Release::CriO1_34, [true, false, true, false]),
        (Release::Containerd2_2, [true, true, true, false]),
        (Release::Containerd2_3, [true, true, true, true]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nri.sock");
        let runtime = FakeRuntime::start(&socket, mk_options(release)).unwrap();
        let service = Service::builder(50, "adds").socket(&socket);
        let service = service.start(Adds).unwrap();
        runtime.wait_registered().await;
        let (pod, container) = (mk_pod("pod"), mk_container("one"));
        let created = runtime.create_container(&pod, &container).await;
        let adjustment = created.unwrap().adjustment;
        assert_eq!(adjustment.env[0].key, "KNOWN");
        let linux = adjustment.linux.unwrap();
        let has = [
            !adjustment.cdi_devices.is_empty(),
            !adjustment.args.is_empty(),
            linux.oom_score_adj.is_some(),
            linux.memory_policy.is_some(),
        ];
        assert_eq!(has, left, "{release:?}");
        service.shutdown().await;
    }
}

#[tokio::test]
async fn updates_reach_the_runtime_at_any_time() {
    let node = Node::start(Options::default(), Late::Allow).await;
    crate::support::wait_state(&node.service, State::is_registered).await;
    let updates = node.service.updates();
    let changes = Changes::from(vec![mk_update("a"), mk_update("b")]);
    assert!(updates.update(changes.clone()).await.unwrap().is_empty());
    assert_eq!(node.runtime.updates(), std::slice::from_ref(&changes));

    node.runtime.stop().await;
    crate::support::wait_state(&node.service, |state| !state.is_registered()).await;
    let error = updates.update(changes).await.unwrap_err();
    assert!(matches!(error, UpdateError::NotRegistered), "{error}");
}

#[tokio::test]
async fn an_answer_of_a_megabyte_arrives() {
    let node = Node::start(Options::default(), Late::Allow).await;
    let container = mk_container(crate::support::LONG);
    let creation = node
        .runtime
        .create_container(&mk_pod("p"), &container)
        .await
        .unwrap();
    assert_eq!(creation.adjustment.env[0].value.len(), 1 << 20);
}
