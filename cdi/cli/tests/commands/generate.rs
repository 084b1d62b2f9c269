//! `cdi-gen generate`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use imex_cdi::{Spec, SpecVersion};
use serde_json::Value;

use super::{Place, stderr, stdout};

fn spec(text: &str) -> Spec {
    Spec::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_spec_has_the_requested_channels_with_the_hosts_numbers() {
    let place = Place::new();
    let spec = spec(&place.out("generate --root host --channels 0,3-4,4", 0));
    assert_eq!(spec.version(), SpecVersion::V0_3_0);
    assert_eq!(spec.kind().to_string(), "nvidia.com/imex-channel");
    let minors: Vec<_> = spec
        .devices()
        .iter()
        .map(|device| {
            let node = &device.container_edits.device_nodes[0];
            assert_eq!(node.major, Some(235));
            // As the fixture's params say.
            assert_eq!(
                (node.file_mode, node.uid, node.gid),
                (Some(0o660), Some(0), Some(44))
            );
            assert_eq!(
                device.name.as_str(),
                format!("channel-{}", node.minor.unwrap())
            );
            node.minor.unwrap()
        })
        .collect();
    assert_eq!(minors, [0, 3, 4]);
}

#[test]
fn all_channels_are_as_many_as_the_driver_has() {
    let place = Place::new();
    let all = spec(&place.out("generate --root host --channels all", 0));
    assert_eq!(all.devices().len(), 2048);
    let counted = spec(&place.out("generate --channels all --count 3 --major 7", 0));
    assert_eq!(counted.devices().len(), 3);
}

#[test]
fn all_channels_have_to_be_requested() {
    let place = Place::new();
    let message = place.err("generate --root host", 2);
    assert!(message.contains("--channels"), "{message}");
}

#[test]
fn without_a_driver_the_numbers_can_be_given() {
    let place = Place::new();
    let spec = spec(&place.out("generate imex --root bundle --channels 0 --major 7", 0));
    let node = &spec.devices()[0].container_edits.device_nodes[0];
    assert_eq!(
        (node.major, node.minor, node.file_mode),
        (Some(7), Some(0), Some(0o666))
    );
    assert_eq!((node.uid, node.gid), (None, None));
}

#[test]
fn options_override_the_drivers_parameters() {
    let place = Place::new();
    let spec = spec(&place.out(
        "generate --root host --channels 9 --major 7 --file-mode 0600 --uid 1 --gid 2 \
         --permissions r --kind example.com/channel --name-style channelN --version 1.0.0",
        0,
    ));
    assert_eq!(spec.version(), SpecVersion::V1_0_0);
    assert_eq!(spec.kind().to_string(), "example.com/channel");
    let device = &spec.devices()[0];
    assert_eq!(device.name.as_str(), "channel9");
    let node = &device.container_edits.device_nodes[0];
    assert_eq!(node.major, Some(7));
    assert_eq!(
        (node.file_mode, node.uid, node.gid),
        (Some(0o600), Some(1), Some(2))
    );
    assert_eq!(node.permissions.map(String::from).as_deref(), Some("r"));
}

#[test]
fn a_node_of_the_host_is_used_as_it_is_and_its_absence_reported() {
    let place = Place::new();
    let output = place
        .run("generate --root host --channels 0-1 --mode host-path --dev-root /run/nvidia/driver");
    assert_eq!(output.status.code(), Some(0));
    let spec = spec(&stdout(&output));
    let node = &spec.devices()[0].container_edits.device_nodes[0];
    assert_eq!(
        node.host_path.as_deref(),
        Some("/run/nvidia/driver/dev/nvidia-caps-imex-channels/channel0")
    );
    assert_eq!(
        (node.device_type, node.major, node.file_mode),
        (None, None, None)
    );
    let message = stderr(&output);
    assert!(
        message.contains("channel0 does not exist") && message.contains("1 more"),
        "{message}"
    );
}

#[test]
fn yaml_means_the_same_as_json() {
    let place = Place::new();
    let options = "generate --root host --channels 0-2 --name-style N";
    let json = place.out(options, 0);
    let yaml = place.out(&format!("{options} --format yaml"), 0);
    assert!(yaml.starts_with("cdiVersion: \"0.5.0\"\n"), "{yaml}");
    assert_eq!(spec(&yaml), spec(&json));
}

#[test]
fn missing_files_and_contradictory_options_are_one_clear_error() {
    let place = Place::new();
    for (options, code, reason) in [
        (
            "--channels 2048",
            1,
            "channel 2048 does not exist: the driver has 2048",
        ),
        ("--channels 0 --count 0", 1, "no IMEX channels"),
        (
            "--channels all --count 1048577",
            2,
            "1048577 channels are more",
        ),
        (
            "--channels 0 --proc-root none",
            3,
            "cannot read the device list none/devices",
        ),
        (
            "--channels all --proc-root none",
            1,
            "none/driver/nvidia/params does not exist",
        ),
        (
            "--channels 0 --mode host-path --major 7",
            2,
            "--major has no meaning",
        ),
        ("--channels 0 --dev-root /x", 2, "--dev-root has no meaning"),
        (
            "--channels 0 --mode host-path --dev-root x",
            2,
            "--dev-root x is not an absolute path",
        ),
        (
            "--channels 0 --name-style N --version 0.3.0",
            2,
            "declares version 0.3.0 but has",
        ),
        (
            "--channels 0 --output none/x.json",
            3,
            "cannot write none/x.json",
        ),
        (
            "--channels 0 --output ..",
            2,
            ".. is not the path of a file",
        ),
    ] {
        let message = place.err(&format!("generate --root host {options}"), code);
        assert!(message.contains(reason), "{options}: {message}");
        assert!(
            message.starts_with("cdi-gen: ") && message.contains("; "),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    for options in [
        "--channels 7-3",
        "--channels 0 --major 0",
        "--channels 0 --major x",
        "--channels 0 --file-mode 999",
        "--channels 0 --permissions x",
        "--channels 0 --permissions=",
        "--channels 0 --kind nvidia",
        "--channels 0 --version 9.9",
        "--channels 0 --install --output x.json",
        "--channels 0 --id x",
        "--channels 0 --install --id a/b",
        "--channels 0 --replace",
    ] {
        let message = place.err(&format!("generate --root host {options}"), 2);
        assert!(message.starts_with("error: "), "{options}: {message}");
    }
}

#[test]
fn an_installed_spec_has_its_usual_name_and_everybody_may_read_it() {
    let place = Place::new();
    fs::remove_dir_all(place.at("host/run/cdi")).unwrap();
    let file = "host/run/cdi/nvidia.com-imex-channel.json";
    let said = place.out("generate --root host --channels 0 --install", 0);
    assert_eq!(said, format!("{file}\n"));
    let mode = fs::metadata(place.at(file)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let text = place.read(file);
    assert!(text.ends_with('}'), "a part of it is no JSON");
    assert_eq!(spec(&text).devices().len(), 1);
    let names = fs::read_dir(place.at("host/run/cdi")).unwrap().count();
    assert_eq!(names, 1, "nothing else is left there");
    let before = fs::metadata(place.at(file)).unwrap().modified().unwrap();
    place.out("generate --root host --channels 0 --install", 0);
    let after = fs::metadata(place.at(file)).unwrap().modified().unwrap();
    assert_eq!(before, after, "what is right already is not written");
    let said = place.out("generate --root host --channels 1 --install --id job-7", 0);
    assert_eq!(said, "host/run/cdi/nvidia.com-imex-channel_job-7.json\n");
}

#[test]
fn a_spec_that_would_conflict_with_another_file_is_not_installed() {
    let place = Place::new();
    let message = place.err(
        "generate --root host --channels 0 --name-style N --install --id x",
        1,
    );
    assert!(
        message.contains("nvidia.com-imex-channel.json already defines nvidia.com/imex-channel=0"),
        "{message}"
    );
    assert!(
        !place
            .at("host/run/cdi/nvidia.com-imex-channel_x.json")
            .exists()
    );
}

#[test]
fn an_output_file_is_written_whole_and_a_name_that_runtimes_ignore_is_reported() {
    let place = Place::new();
    place.out("generate --root host --channels 0 --output out.json", 0);
    let document: Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert_eq!(document["kind"], "nvidia.com/imex-channel");
    let message = place.err(
        "generate --root host --channels 0 --output out.yml --format yaml",
        0,
    );
    assert!(message.contains("out.yml does not"), "{message}");
    assert_eq!(spec(&place.read("out.yml")).devices().len(), 1);
}

#[test]
fn a_spec_that_is_too_long_to_be_one_is_not_written() {
    let place = Place::new();
    let message = place.err(
        "generate --root host --channels all --count 200000 --output many.json",
        2,
    );
    assert!(
        message.contains("and no device spec is longer than 1048576"),
        "{message}"
    );
    assert!(!place.at("many.json").exists());
}

#[test]
fn devices_that_only_the_replaced_file_has_are_reported() {
    let place = Place::new();
    for (target, path) in [
        (
            "--install --replace --id j",
            "host/run/cdi/nvidia.com-imex-channel_j.json",
        ),
        (
            "--output host/run/cdi/k.json --kind nvidia.com/k8",
            "host/run/cdi/k.json",
        ),
    ] {
        let three = place.run(&format!("generate --root host --channels 3-5 {target}"));
        assert_eq!(
            (three.status.code(), stderr(&three).as_str()),
            (Some(0), "")
        );
        let one = place.run(&format!("generate --root host --channels 4 {target}"));
        assert_eq!(one.status.code(), Some(0));
        let message = stderr(&one);
        assert!(
            message.starts_with(&format!("cdi-gen: {path} defines "))
                && message.contains("=channel-3 and 1 more"),
            "{message}"
        );
    }
}

#[test]
fn an_output_file_in_a_cdi_directory_must_not_conflict_either() {
    let place = Place::new();
    let command = "generate --root host --channels 0 --name-style N --output host/run/cdi/x.json";
    let message = place.err(command, 1);
    assert!(
        message.contains("already defines nvidia.com/imex-channel=0"),
        "{message}"
    );
    assert!(!place.at("host/run/cdi/x.json").exists());
}
