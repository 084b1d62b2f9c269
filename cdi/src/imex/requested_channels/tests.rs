use super::request::MAX_REQUESTS;
use super::*;

const MAJOR: i64 = 235;
const NODE: &str = "/dev/nvidia-caps-imex-channels/channel3";

fn requested(container: &ContainerView<'_>) -> RequestedChannels {
    requested_channels(container, Major::new(235).ok(), |_| None)
}

/// The requests as text, with a major or without.
fn shown(container: &ContainerView<'_>) -> Vec<String> {
    let requested = requested(container).requests;
    requested.iter().map(ToString::to_string).collect()
}

fn device(path: &str, major: i64, minor: i64) -> ContainerView<'_> {
    let device_type = "c";
    ContainerView {
        devices: vec![DeviceView {
            path,
            device_type,
            major,
            minor,
        }],
        ..ContainerView::default()
    }
}

fn rule(
    device_type: &'static str,
    numbers: (Option<i64>, Option<i64>),
    access: &'static str,
) -> RequestedChannels {
    let (major, minor) = numbers;
    let rule = RuleView {
        device_type,
        major,
        minor,
        access,
    };
    requested(&ContainerView {
        rules: vec![rule],
        ..ContainerView::default()
    })
}

fn mount<'a>(source: &'a str, destination: &'a str) -> ContainerView<'a> {
    ContainerView {
        mounts: vec![MountView {
            source,
            destination,
        }],
        ..ContainerView::default()
    }
}

fn env(assignment: &str) -> ContainerView<'_> {
    ContainerView {
        env: vec!["PATH=/bin", assignment],
        ..ContainerView::default()
    }
}

fn annotation<'a>(key: &'a str, value: &'a str) -> ContainerView<'a> {
    ContainerView {
        name: "main",
        annotations: vec![(key, value)],
        ..ContainerView::default()
    }
}

#[test]
fn a_container_without_channels_has_no_request() {
    let mut nothing = mount("/dev/null", "/etc/nothing");
    nothing.env = vec!["NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_IMEX_CHANNELS=", "A"];
    nothing.annotations = vec![("cdi.k8s.io/gpu", "nvidia.com/gpu=0"), ("a", "b")];
    nothing.cdi_names = vec!["nvidia.com/gpu=all"];
    nothing.devices = device("/dev/nvidia0", 195, 0).devices;
    // containerd's own: nodes may be made, and not opened.
    let access = "m";
    nothing.rules = vec![RuleView {
        device_type: "c",
        major: None,
        minor: None,
        access,
    }];
    assert!(requested(&nothing).is_empty());
}

#[test]
fn a_device_node_is_known_by_its_major_wherever_it_is() {
    let found = shown(&device("/dev/harmless", MAJOR, 7));
    assert_eq!(found, ["IMEX channel 7 (device /dev/harmless)"]);
    assert!(shown(&device("/dev/harmless", MAJOR + 1, 7)).is_empty());
    let found = shown(&device(NODE, MAJOR, 7));
    assert_eq!(
        found,
        [format!("IMEX channel 7 (device {NODE})")],
        "not its name"
    );
}

#[test]
fn a_device_node_is_known_by_its_path_whatever_its_major() {
    let found = [format!("IMEX channel 3 (device {NODE})")];
    assert_eq!(shown(&device(NODE, MAJOR - 1, 9)), found);
    let without_driver = requested_channels(&device(NODE, MAJOR, 9), None, |_| None);
    assert_eq!(without_driver.requests[0].channels, of_number(3));
    let found = shown(&device("/dev//x/../nvidia-caps-imex-channels/odd", 1, 3));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("IMEX channel \"odd\""));
    assert!(shown(&device("/dev/nvidia-caps-imex-channels2/channel0", 1, 3)).is_empty());
}

#[test]
fn a_rule_counts_if_the_device_could_be_opened() {
    let channels = |numbers, access| {
        let requested = rule("c", numbers, access);
        assert!(!requested.every_device);
        requested
            .requests
            .into_iter()
            .map(|requested| requested.channels)
            .collect::<Vec<_>>()
    };
    assert_eq!(channels((Some(MAJOR), Some(4)), "rw"), [of_number(4)]);
    assert_eq!(channels((Some(MAJOR), None), "r"), [Channels::Every]);
    assert_eq!(channels((Some(MAJOR), Some(-1)), "w"), [Channels::Every]);
    assert_eq!(channels((Some(MAJOR), Some(4)), "m"), []);
    assert_eq!(channels((Some(MAJOR + 1), None), "rwm"), []);
}

#[test]
fn a_rule_for_every_device_is_distinguished_from_a_request() {
    for device_type in ["", "a", "c"] {
        let requested = rule(device_type, (None, None), "rwm");
        assert!(requested.every_device && requested.requests.is_empty());
    }
    assert!(rule("b", (None, None), "rwm").is_empty());
}

#[test]
fn a_mount_of_the_directory_or_a_channel_is_a_request_but_not_a_parent() {
    let all = ["every IMEX channel (mount at /mnt)"];
    assert_eq!(
        shown(&mount("/dev/nvidia-caps-imex-channels/", "/mnt")),
        all
    );
    assert_eq!(
        shown(&mount(NODE, "/mnt")),
        ["IMEX channel 3 (mount at /mnt)"]
    );
    let found = shown(&mount("/somewhere", NODE));
    assert_eq!(found, [format!("IMEX channel 3 (mount at {NODE})")]);
    for above in ["/", "/dev"] {
        assert!(shown(&mount(above, "/host")).is_empty());
    }
}

#[test]
fn nvidias_variable_is_a_list_of_numbers_or_all() {
    let channels = |list: &str| {
        let assignment = format!("NVIDIA_IMEX_CHANNELS={list}");
        let requests = requested(&env(&assignment)).requests;
        requests
            .into_iter()
            .map(|requested| requested.channels)
            .collect::<Vec<_>>()
    };
    assert_eq!(channels("0, 2047"), [of_number(0), of_number(2047)]);
    assert_eq!(channels("channel3,3"), [of_number(3)]);
    assert_eq!(channels("all"), [Channels::Every]);
    for nothing in ["", " ", "void", "none", ","] {
        assert_eq!(channels(nothing), []);
    }
    for unreadable in ["x", "-1", "1048576", "0-3", "4294967296"] {
        assert_eq!(
            channels(unreadable),
            [Channels::Unreadable(unreadable.to_owned())]
        );
    }
    let named = shown(&env("NVIDIA_IMEX_CHANNELS=5"));
    assert_eq!(
        named,
        ["IMEX channel 5 (environment variable NVIDIA_IMEX_CHANNELS)"]
    );
}

#[test]
fn a_mount_of_dev_null_where_nvidias_runtime_looks_is_a_request() {
    let root = "/var/run/nvidia-container-devices";
    for (below, channels) in [
        ("imex/12", of_number(12)),
        ("imex/all", Channels::Every),
        ("cdi/nvidia.com/imex-channel/4", of_number(4)),
        ("cdi/nvidia.com/imex-channel=4", of_number(4)),
    ] {
        // Its runtime compares the beginning of the text, not of the path.
        let unseparated = requested(&mount("/dev/null", &format!("{root}{below}"))).requests;
        assert_eq!(unseparated[0].channels, channels);
        let destination = format!("{root}/{below}");
        let found = requested(&mount("/dev//null", &destination)).requests;
        assert_eq!(found.len(), 1, "{below}");
        assert_eq!(found[0].channels, channels);
        assert_eq!(
            found[0].by,
            RequestSource::VolumeRequest(destination.clone())
        );
        assert!(shown(&mount("/dev/zero", &destination)).is_empty());
    }
    assert!(
        shown(&mount("/dev/null", &format!("{root}/0"))).is_empty(),
        "a GPU"
    );
}

#[test]
fn names_of_cdi_devices_are_recognized_in_every_place() {
    let claim = "k8s.compute-domain.nvidia.com/claim=0a1b-c2-channel-6";
    for (name, channels) in [
        (claim, of_number(6)),
        ("nvidia.com/imex-channel=8", of_number(8)),
        ("example.com/imex-channel=all", Channels::Every),
        ("management.nvidia.com/gpu=all", Channels::Every),
    ] {
        let visible = format!("NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0,{name}");
        let list = format!("nvidia.com/gpu=0, {name}");
        let (block, flow) = (
            format!("- a/b=c\n- '{name}'\n"),
            format!("[a/b=c, \"{name}\"]"),
        );
        for container in [
            env(&visible),
            annotation("cdi.k8s.io/any", &list),
            annotation("nvidia.cdi.k8s.io", name),
            annotation("nvidia.cdi.k8s.io/container.main", name),
            annotation("cdi-devices.noderesource.dev/pod", name),
            annotation("cdi-devices.noderesource.dev/container.main", &block),
            annotation("cdi-devices.noderesource.dev/pod", &flow),
            ContainerView {
                cdi_names: vec![name],
                ..ContainerView::default()
            },
        ] {
            let found = requested(&container).requests;
            assert_eq!(found.len(), 1, "{container:?}");
            assert_eq!(found[0].channels, channels);
        }
    }
    for other in [
        annotation("nvidia.cdi.k8s.io/container.other", claim),
        annotation("nvidia.cdi.k8s.ioo", claim),
        annotation(
            "cdi.k8s.io/a",
            "k8s.compute-domain.nvidia.com/claim=0a1b-daemon",
        ),
    ] {
        assert!(shown(&other).is_empty(), "{other:?}");
    }
}

#[test]
fn an_annotation_of_the_runtimes_is_for_every_container_whatever_its_key() {
    let found = shown(&annotation(
        "cdi.k8s.io/container.other",
        "nvidia.com/imex-channel=1",
    ));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_request_to_nvidias_runtime_without_a_kind_is_a_gpu() {
    let resolve = |name: &QualifiedName| {
        let is_it = name.to_string() == "nvidia.com/gpu=odd";
        is_it.then(|| {
            vec![DeviceNode {
                path: NODE.to_owned(),
                ..DeviceNode::default()
            }]
        })
    };
    let found = |container| requested_channels(&container, None, resolve).requests.len();
    assert_eq!(found(env("NVIDIA_VISIBLE_DEVICES=0, odd")), 1);
    assert_eq!(found(annotation("cdi.k8s.io/a", "odd")), 1);
    let volume = "/var/run/nvidia-container-devices/odd";
    assert_eq!(found(mount("/dev/null", volume)), 1);
    // Others have names of CDI devices only.
    assert_eq!(found(annotation("nvidia.cdi.k8s.io", "odd")), 0);
    let requested = ContainerView {
        cdi_names: vec!["odd"],
        ..ContainerView::default()
    };
    assert_eq!(found(requested), 0);
}

#[test]
fn a_resolved_name_stands_for_its_nodes() {
    let node = |path: &str, host: Option<&str>, major| DeviceNode {
        path: path.to_owned(),
        host_path: host.map(str::to_owned),
        major,
        minor: Some(9),
        ..DeviceNode::default()
    };
    let resolve = |name: &QualifiedName| match name.device().as_str() {
        "hidden" => Some(vec![
            node("/dev/x", None, Some(MAJOR)),
            node("/dev/y", Some(NODE), None),
        ]),
        "harmless" => Some(vec![node("/dev/x", None, Some(1))]),
        _ => None,
    };
    let container = |name| ContainerView {
        cdi_names: vec![name],
        ..ContainerView::default()
    };
    let found = |name| requested_channels(&container(name), Major::new(235).ok(), resolve).requests;
    let channels: Vec<_> = found("a.com/b=hidden")
        .into_iter()
        .map(|it| it.channels)
        .collect();
    assert_eq!(channels, [of_number(9), of_number(3)]);
    assert!(found("a.com/imex-channel=harmless").is_empty());
    assert_eq!(found("a.com/imex-channel=1").len(), 1);
}

#[test]
fn a_claims_container_requests_one_channel_in_three_ways() {
    let mut container = device(NODE, MAJOR, 3);
    container.cdi_names = vec!["k8s.compute-domain.nvidia.com/claim=0a1b-channel-3"];
    container.rules = vec![RuleView {
        device_type: "c",
        major: Some(MAJOR),
        minor: Some(3),
        access: "rw",
    }];
    let found = requested(&container);
    assert!(
        found
            .requests
            .iter()
            .all(|requested| requested.channels == of_number(3))
    );
    assert_eq!((found.requests.len(), found.every_device), (3, false));
}

#[test]
fn a_very_long_list_ends_with_a_request_for_every_channel() {
    let list: Vec<_> = (0..20_000).map(|id| id.to_string()).collect();
    let assignment = format!("NVIDIA_IMEX_CHANNELS={}", list.join(","));
    let found = requested(&env(&assignment)).requests;
    assert_eq!(found.len(), MAX_REQUESTS + 1);
    assert_eq!(found[MAX_REQUESTS].channels, Channels::Every);
}

#[test]
fn untrusted_text_is_shortened_and_shown_on_one_line() {
    let long = format!("NVIDIA_IMEX_CHANNELS={}\n\u{202e}", "x".repeat(5000));
    let found = shown(&env(&long));
    assert!(
        found[0].len() < 120 && !found[0].contains('\n'),
        "{found:?}"
    );
    let found = shown(&annotation("cdi.k8s.io/a\nb", "nvidia.com/imex-channel=1"));
    assert_eq!(found, ["IMEX channel 1 (annotation cdi.k8s.io/a\\nb)"]);
}
