//! Every channel that NVIDIA's container runtime grants is found as a request of the container. The
//! results are recorded from the real program (`fixtures/nvidia-runtime.json`).
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

mod cases;
mod record;

use std::collections::BTreeSet;
use std::fs;

use imex_cdi::{
    Channels, ContainerView, DeviceNode, Major, MountView, QualifiedName, Registry,
    RequestedChannel, requested_channels,
};
use serde::{Deserialize, Serialize};

use crate::cases::Input;

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/nvidia-runtime.json"
);
const DIRECTORY: &str = "/dev/nvidia-caps-imex-channels/channel";

/// The recorded cases.
#[derive(Serialize, Deserialize)]
struct Recording {
    toolkit: String,
    /// The host's CDI specs.
    specs: Vec<String>,
    cases: Vec<Recorded>,
}

/// A container, and its result.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Recorded {
    #[serde(flatten)]
    input: Input,
    /// The channels that the container has.
    given: BTreeSet<u32>,
    /// The container is not created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Channels granted because a setting of the host makes NVIDIA's runtime read something else.
const NOT_SEEN: [&str; 3] = [
    "default-kind of the config",
    "annotation-prefixes of the config",
    "swarm-resource of the config",
];

fn recording() -> Recording {
    serde_json::from_str(&fs::read_to_string(FIXTURE).unwrap()).unwrap()
}

/// The host's specs, in a directory.
fn host(specs: &[String]) -> (tempfile::TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    for (at, text) in specs.iter().enumerate() {
        fs::write(dir.path().join(format!("{at}.yaml")), text).unwrap();
    }
    let registry = Registry::load(&[dir.path()]);
    assert!(registry.files().iter().all(|file| file.spec.is_ok()));
    (dir, registry)
}

fn requested(input: &Input, registry: &Registry) -> Vec<RequestedChannel> {
    let mounts = input.mounts.iter();
    let view = ContainerView {
        name: "main",
        env: input.env.iter().map(String::as_str).collect(),
        annotations: input
            .annotations
            .iter()
            .map(|(key, value)| (&**key, &**value))
            .collect(),
        mounts: mounts
            .map(|(source, destination)| MountView {
                source,
                destination,
            })
            .collect(),
        ..ContainerView::default()
    };
    let resolve = |name: &QualifiedName| -> Option<Vec<DeviceNode>> {
        let found = registry.resolve(name).ok()?;
        let edits = [found.spec.container_edits(), &found.device.container_edits];
        let nodes = edits.into_iter().flat_map(|edits| &edits.device_nodes);
        Some(nodes.cloned().collect())
    };
    requested_channels(&view, Major::new(235).ok(), resolve).requests
}

fn covers(requested: &[RequestedChannel], channel: u32) -> bool {
    requested.iter().any(|requested| match &requested.channels {
        Channels::One(id) => id.get() == channel,
        Channels::Every => true,
        Channels::Unreadable(_) => false,
    })
}

#[test]
fn no_channel_is_granted_without_a_request() {
    let recording = recording();
    let (_dir, registry) = host(&recording.specs);
    let mut given = 0;
    for case in &recording.cases {
        let requested = requested(&case.input, &registry);
        for &channel in &case.given {
            given += 1;
            let is_seen = covers(&requested, channel);
            let is_known = NOT_SEEN.contains(&&*case.input.name);
            assert_eq!(is_seen, !is_known, "channel {channel} of {:?}", case.input);
        }
    }
    assert!(given > 50, "{given}");
    for name in NOT_SEEN {
        let is_it = |case: &Recorded| case.input.name == name && !case.given.is_empty();
        assert!(recording.cases.iter().any(is_it), "{name}");
    }
}

/// The NRI guard refuses each of these, although NVIDIA's runtime would grant nothing in that mode.
#[test]
fn requests_that_are_never_granted_are_known() {
    let recording = recording();
    let (_dir, registry) = host(&recording.specs);
    let of_name = |name: &str, is_given: bool| {
        let cases = recording.cases.iter();
        let mut of_name = cases.filter(|case| case.input.name == name);
        of_name.any(|case| case.given.is_empty() != is_given)
    };
    let asking = recording
        .cases
        .iter()
        .filter(|case| !requested(&case.input, &registry).is_empty());
    let names: BTreeSet<&str> = asking.map(|case| &*case.input.name).collect();
    let never: Vec<&str> = names
        .into_iter()
        .filter(|name| !of_name(name, true))
        .collect();
    assert_eq!(never, cases::NEVER_GIVEN);
}

/// `IMEX_NVIDIA_RUNTIME=DIRECTORY cargo test -p imex-cdi --all-features --test nvidia_runtime -- --ignored`
/// as root, with gcc. `fixtures/README.md` says how the programs in the directory are built;
/// `IMEX_UPDATE=1` writes the fixture.
#[test]
#[ignore = "needs NVIDIA's programs, and root for device nodes"]
fn the_real_programs_do_what_is_recorded() {
    let programs = std::env::var("IMEX_NVIDIA_RUNTIME").unwrap();
    let host = record::Host::lay_out(programs.as_ref());
    let cases: Vec<Recorded> = cases::all()
        .into_iter()
        .map(|input| host.run(input))
        .collect();
    if std::env::var_os("IMEX_UPDATE").is_some() {
        let recording = Recording {
            toolkit: record::toolkit(),
            specs: cases::SPECS.map(str::to_owned).to_vec(),
            cases,
        };
        let text = record::one_case_a_line(&recording);
        return fs::write(FIXTURE, text).unwrap();
    }
    assert_eq!(cases, recording().cases);
}
