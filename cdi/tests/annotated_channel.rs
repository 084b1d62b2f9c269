//! The example `annotated_channel` as a runtime meets it.

#![cfg(feature = "nri")]

use nri_plugin::api::{Container, PodSandbox};
use nri_plugin::testing::{FakeRuntime, Options};

#[path = "../examples/annotated_channel.rs"]
#[expect(dead_code, reason = "its main")]
mod example;

use example::{AnnotatedChannel, parse_allowed};
use nri_plugin::Service;

fn mk_pod(namespace: &str, annotation: Option<&str>) -> PodSandbox {
    let annotation = annotation.map(|value| ("example.com/imex-channel".into(), value.into()));
    PodSandbox {
        namespace: namespace.into(),
        annotations: annotation.into_iter().collect(),
        ..PodSandbox::default()
    }
}

#[tokio::test]
async fn a_pod_has_the_channel_that_its_namespace_may_have() {
    let directory = tempfile::tempdir().unwrap();
    let proc_devices = directory.path().join("devices");
    let socket = directory.path().join("nri.sock");
    let plugin = AnnotatedChannel {
        allowed: [parse_allowed("team-a=9").unwrap()].into(),
        proc_devices: proc_devices.clone(),
    };
    let runtime = FakeRuntime::start(&socket, Options::default()).unwrap();
    let service = Service::builder(50, "annotated-channel");
    let service = service.socket(&socket).start(plugin).unwrap();
    runtime.wait_registered().await;
    let create = async |pod: PodSandbox| {
        let created = runtime.create_container(&pod, &Container::default()).await;
        created.map(|creation| creation.adjustment.linux.map(|it| it.devices))
    };

    let refused = |outcome: Result<_, _>| match outcome {
        Ok(devices) => panic!("{devices:?}"),
        Err(error) => format!("{error}"),
    };
    let without_driver = refused(create(mk_pod("team-a", Some("9"))).await);
    assert!(without_driver.contains("devices"), "{without_driver}");

    let majors = "Character devices:\n235 nvidia-caps-imex-channels\n";
    std::fs::write(proc_devices, majors).unwrap();
    let devices = create(mk_pod("team-a", Some("9"))).await.unwrap().unwrap();
    assert_eq!(devices.len(), 1);
    let device = &devices[0];
    assert_eq!(device.path, "/dev/nvidia-caps-imex-channels/channel9");
    assert_eq!((device.major, device.minor), (235, 9));

    assert_eq!(create(mk_pod("team-a", None)).await.unwrap(), None);
    for (namespace, value, says) in [
        (
            "team-b",
            "9",
            "IMEX channel 9 is not allowed in namespace team-b",
        ),
        (
            "team-a",
            "10",
            "IMEX channel 10 is not allowed in namespace team-a",
        ),
        (
            "team-a",
            "all",
            r#""all" is not the number of an IMEX channel"#,
        ),
    ] {
        let message = refused(create(mk_pod(namespace, Some(value))).await);
        assert!(message.contains(says), "{message}");
    }
    service.shutdown().await;
}

#[test]
fn an_argument_that_is_no_namespace_and_channel_is_an_error() {
    for (argument, says) in [
        ("team-a", "is not NAMESPACE=CHANNEL"),
        ("team-a=x", "is not the number of an IMEX channel"),
        ("team-a=1048576", "is not below"),
    ] {
        let message = parse_allowed(argument).unwrap_err();
        assert!(message.contains(says), "{message}");
    }
}
