//! Containers and settings of NVIDIA's runtime.

use serde::{Deserialize, Serialize};

/// A container on a host.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(crate) struct Input {
    /// The same for all modes.
    pub(crate) name: String,
    /// Of NVIDIA's runtime.
    pub(crate) mode: String,
    /// Further lines of its config, the top level's first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) config: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) env: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) annotations: Vec<(String, String)>,
    /// Source and destination.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mounts: Vec<(String, String)>,
}

const MODES: [&str; 5] = ["cdi", "jit-cdi", "auto", "csv", "legacy"];

/// Requests that no mode grants and the NRI guard refuses: see `docs/nri-guard.md`.
pub(crate) const NEVER_GIVEN: [&str; 14] = [
    // The NRI plugin reads it, which is another program.
    "annotation of the NRI plugin",
    // Its prefix ends with a slash.
    "annotation without a key",
    // One void makes the list empty.
    "channel and void",
    // Without a device there is no channel.
    "channel beside void",
    "channel without GPUs",
    // By its config.
    "environment that is not accepted",
    // As a variable; a mount for "all" is given.
    "every channel",
    "every channel and one",
    "ignored channel",
    "ignored mount of a channel",
    "mount of a channel and nothing else",
    "mount that is not accepted",
    // No spec defines them.
    "nvidia.com/imex-channel=7",
    "runtime.nvidia.com/imex-channel=1",
];

/// The host's CDI specs, which runtimes accept.
pub(crate) const SPECS: [&str; 7] = [
    r"{cdiVersion: 0.5.0, kind: example.com/fabric, devices: [
{name: all, containerEdits: {deviceNodes: [
{path: /dev/nvidia-caps-imex-channels/channel0, type: c, major: 235, minor: 0},
{path: /dev/nvidia-caps-imex-channels/channel1, type: c, major: 235, minor: 1}]}}]}",
    r"{cdiVersion: 0.5.0, kind: example.com/whole, containerEdits: {deviceNodes: [
{path: /dev/nvidia-caps-imex-channels/channel1, type: c, major: 235, minor: 1}]},
devices: [{name: any, containerEdits: {env: [A=B]}}]}",
    r"{cdiVersion: 0.5.0, kind: example.com/hidden, devices: [
{name: it, containerEdits: {deviceNodes: [{path: /dev/harmless, type: c, major: 235, minor: 1}]}}]}",
    r"{cdiVersion: 0.5.0, kind: example.com/harmless, devices: [{name: all, containerEdits: {env: [A=B]}}]}",
    r#"{cdiVersion: 0.5.0, kind: nvidia.com/imex-channel, devices: [
{name: "0", containerEdits: {deviceNodes: [
{path: /dev/nvidia-caps-imex-channels/channel0, type: c, major: 235, minor: 0}]}}]}"#,
    r"{cdiVersion: 0.5.0, kind: management.nvidia.com/gpu, devices: [
{name: all, containerEdits: {deviceNodes: [
{path: /dev/nvidia-caps-imex-channels/channel0, type: c, major: 235, minor: 0}]}}]}",
    r#"{cdiVersion: 0.5.0, kind: nvidia.com/gpu, devices: [
{name: "0", containerEdits: {env: [A=B]}},
{name: odd, containerEdits: {deviceNodes: [
{path: /dev/nvidia-caps-imex-channels/channel1, type: c, major: 235, minor: 1}]}}]}"#,
];

/// Each container in each mode, and some with other settings.
pub(crate) fn all() -> Vec<Input> {
    let mut all = Vec::new();
    for mode in MODES {
        let of_mode = |mut input: Input| {
            mode.clone_into(&mut input.mode);
            input
        };
        let containers = [by_env(), by_annotation(), by_mount(), by_setting()];
        all.extend(containers.into_iter().flatten().map(of_mode));
    }
    all
}

fn container(name: &str) -> Input {
    Input {
        name: name.to_owned(),
        mode: String::new(),
        config: Vec::new(),
        env: Vec::new(),
        annotations: Vec::new(),
        mounts: Vec::new(),
    }
}

/// With the values of `NVIDIA_VISIBLE_DEVICES` and `NVIDIA_IMEX_CHANNELS`.
fn env(name: &str, devices: Option<&str>, channels: Option<&str>) -> Input {
    let devices = devices.map(|list| format!("NVIDIA_VISIBLE_DEVICES={list}"));
    let channels = channels.map(|list| format!("NVIDIA_IMEX_CHANNELS={list}"));
    Input {
        env: devices.into_iter().chain(channels).collect(),
        ..container(name)
    }
}

fn by_env() -> Vec<Input> {
    let channels = |name: &str, list| env(name, Some("none"), Some(list));
    let device = |name| env(name, Some(name), None);
    vec![
        env("nothing", None, None),
        env("channel beside all GPUs", Some("all"), Some("0")),
        env("channel beside void", Some("void"), Some("0")),
        env("channel without GPUs", None, Some("0")),
        channels("channel beside no GPU", "0"),
        channels("two channels", "0,1"),
        channels("channel with its word", "channel1"),
        channels("every channel", "all"),
        channels("every channel and one", "0,all"),
        channels("channel and void", "void,1"),
        channels("channel among spaces", " 1 ,"),
        env(
            "channel beside an automatic GPU",
            Some("runtime.nvidia.com/gpu=none"),
            Some("1"),
        ),
        env(
            "channel beside another device",
            Some("example.com/harmless=all"),
            Some("1"),
        ),
        device("example.com/fabric=all"),
        device("example.com/whole=any"),
        device("example.com/hidden=it"),
        device("example.com/harmless=all"),
        device("example.com/harmless=all, example.com/fabric=all"),
        device("example.com/nobodys=all"),
        device("nvidia.com/imex-channel=0"),
        device("nvidia.com/imex-channel=7"),
        device("management.nvidia.com/gpu=all"),
        device("nvidia.com/gpu=0"),
        device("odd"),
        device("mode=imex,id=1"),
        device("runtime.nvidia.com/imex-channel=1"),
    ]
}

fn by_annotation() -> Vec<Input> {
    let annotated = |name: &str, key: &str, value: &str| Input {
        annotations: vec![(key.to_owned(), value.to_owned())],
        ..container(name)
    };
    let fabric = "example.com/fabric=all";
    vec![
        annotated("annotation", "cdi.k8s.io/any", fabric),
        annotated("annotation without a key", "cdi.k8s.io", fabric),
        annotated(
            "annotation for another container",
            "cdi.k8s.io/container.other",
            fabric,
        ),
        annotated("annotation without a kind", "cdi.k8s.io/any", "odd"),
        annotated(
            "annotation of the NRI plugin",
            "nvidia.cdi.k8s.io/any",
            fabric,
        ),
        Input {
            annotations: vec![(
                "cdi.k8s.io/any".to_owned(),
                "example.com/harmless=all".to_owned(),
            )],
            ..env("annotation before the environment", Some(fabric), None)
        },
    ]
}

fn by_mount() -> Vec<Input> {
    let mounted = |name: &str, source: &str, below: &str| Input {
        mounts: vec![(
            source.to_owned(),
            format!("/var/run/nvidia-container-devices{below}"),
        )],
        ..env(name, Some("none"), None)
    };
    let null = "/dev/null";
    vec![
        mounted("mount of a channel", null, "/imex/1"),
        mounted("mount of every channel", null, "/imex/all"),
        mounted("mount of a channel, without the slash", null, "imex/1"),
        mounted(
            "mount of a channel by a crooked path",
            "/dev/../dev/null",
            "/x/../imex//1/",
        ),
        mounted(
            "mount of a device with three slashes",
            null,
            "/cdi/example.com/fabric/all",
        ),
        mounted("mount of a device", null, "/cdi/example.com/fabric=all"),
        mounted("mount of a device without a kind", null, "/odd"),
        mounted("mount of something else", "/dev/zero", "/imex/1"),
        Input {
            env: Vec::new(),
            ..mounted("mount of a channel and nothing else", null, "/imex/1")
        },
        Input {
            mounts: vec![(
                null.to_owned(),
                "/var/run/nvidia-container-devices/imex/1".to_owned(),
            )],
            ..env("mount of a channel beside all GPUs", Some("all"), None)
        },
    ]
}

fn by_setting() -> Vec<Input> {
    let with = |lines: &[&str], input: Input| Input {
        config: lines.iter().map(|&line| line.to_owned()).collect(),
        ..input
    };
    let cdi = "[nvidia-container-runtime.modes.cdi]";
    let ignore = ["[features]", "ignore-imex-channel-requests = true"];
    let fabric = "example.com/fabric=all";
    let mounted = |name| Input {
        mounts: vec![(
            "/dev/null".to_owned(),
            "/var/run/nvidia-container-devices/imex/1".to_owned(),
        )],
        ..env(name, Some("none"), None)
    };
    vec![
        with(&ignore, env("ignored channel", Some("none"), Some("0"))),
        with(&ignore, mounted("ignored mount of a channel")),
        with(
            &ignore,
            env("device beside ignored channels", Some(fabric), None),
        ),
        with(
            &["accept-nvidia-visible-devices-as-volume-mounts = false"],
            mounted("mount that is not accepted"),
        ),
        with(
            &["accept-nvidia-visible-devices-envvar-when-unprivileged = false"],
            env("environment that is not accepted", Some(fabric), Some("0")),
        ),
        with(
            &[cdi, "default-kind = \"example.com/fabric\""],
            env("default-kind of the config", Some("all"), None),
        ),
        with(
            &[cdi, "annotation-prefixes = [\"example.com/\"]"],
            Input {
                annotations: vec![("example.com/any".to_owned(), fabric.to_owned())],
                ..container("annotation-prefixes of the config")
            },
        ),
        with(
            &["swarm-resource = \"EXAMPLE\""],
            Input {
                env: vec![format!("EXAMPLE={fabric}")],
                ..container("swarm-resource of the config")
            },
        ),
    ]
}
