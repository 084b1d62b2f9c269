//! `cdi-gen generate`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

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
    let spec = spec(&place.out("generate --root bundle --channels 0 --major 7", 0));
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
         --permissions r --kind example.com/channel --version 1.0.0",
        0,
    ));
    assert_eq!(spec.version(), SpecVersion::V1_0_0);
    assert_eq!(spec.kind().to_string(), "example.com/channel");
    let device = &spec.devices()[0];
    assert_eq!(device.name.as_str(), "channel-9");
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
    let output = place.run("generate --root host --channels 0-1 --mode host-path");
    assert_eq!(output.status.code(), Some(0));
    let spec = spec(&stdout(&output));
    let node = &spec.devices()[0].container_edits.device_nodes[0];
    assert_eq!(
        node.host_path.as_deref(),
        Some("/dev/nvidia-caps-imex-channels/channel0")
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
    let options = "generate --root host --channels 0-2";
    let json = place.out(options, 0);
    let yaml = place.out(&format!("{options} --format yaml"), 0);
    assert!(yaml.starts_with("cdiVersion: \"0.3.0\"\n"), "{yaml}");
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
        (
            "--channels 0 --mode host-path --major 7",
            2,
            "--major cannot be used",
        ),
        (
            "--channels 0 --output none/x.json",
            3,
            "cannot write none/x.json",
        ),
        ("--channels 0 --output ..", 2, ".. is not a file path"),
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
        "imex --channels 0",
        "--channels 0 --install",
    ] {
        let message = place.err(&format!("generate --root host {options}"), 2);
        assert!(message.starts_with("error: "), "{options}: {message}");
    }
}

#[test]
fn a_host_without_a_driver_or_without_channels_is_one_clear_error() {
    let place = Place::new();
    let params = "host/proc/driver/nvidia/params";
    place.write(params, "ImexChannelCount: 0\n");
    let message = place.err("generate --root host --channels 0", 1);
    assert!(message.contains("no IMEX channels"), "{message}");
    for (options, code, says) in [
        (
            "--channels 0",
            3,
            "cannot read the device list bundle/proc/devices",
        ),
        (
            "--channels all --major 7",
            1,
            "bundle/proc/driver/nvidia/params does not exist",
        ),
    ] {
        let message = place.err(&format!("generate --root bundle {options}"), code);
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn an_output_file_that_is_right_already_is_not_written() {
    let place = Place::new();
    let command = "generate --root host --channels 3 --output host/run/cdi/job-7.json";
    place.out(command, 0);
    let file = place.at("host/run/cdi/job-7.json");
    let before = fs::metadata(&file).unwrap();
    assert_eq!(before.permissions().mode() & 0o777, 0o644);
    let text = place.read("host/run/cdi/job-7.json");
    assert!(text.ends_with('}'), "a part of it is no JSON");
    place.out(command, 0);
    let after = fs::metadata(&file).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
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
    assert!(message.contains("will not read out.yml"), "{message}");
    assert_eq!(spec(&place.read("out.yml")).devices().len(), 1);
}

#[test]
fn a_spec_over_the_size_limit_is_not_written() {
    let place = Place::new();
    let message = place.err(
        "generate --root bundle --channels 0-199999 --major 7 --output many.json",
        2,
    );
    assert!(message.contains("the limit is 1048576"), "{message}");
    assert!(!place.at("many.json").exists());
}

#[test]
fn devices_that_only_the_replaced_file_has_are_reported() {
    let place = Place::new();
    let file = "host/run/cdi/k.json";
    let target = format!("--output {file} --kind nvidia.com/k8");
    let three = place.run(&format!("generate --root host --channels 3-5 {target}"));
    assert_eq!(
        (three.status.code(), stderr(&three).as_str()),
        (Some(0), "")
    );
    let one = place.run(&format!("generate --root host --channels 4 {target}"));
    assert_eq!(one.status.code(), Some(0));
    let message = stderr(&one);
    assert!(
        message.starts_with(&format!("cdi-gen: replacing {file} removes "))
            && message.contains("=channel-3 and 1 more"),
        "{message}"
    );
}

#[test]
fn an_output_file_in_a_cdi_directory_must_not_conflict_with_another() {
    let place = Place::new();
    place.out(
        "generate --root host --channels 3 --output host/run/cdi/job-7.json",
        0,
    );
    let message = place.err(
        "generate --root host --channels 3 --output host/run/cdi/job-8.json",
        1,
    );
    assert!(
        message.contains("job-7.json already defines nvidia.com/imex-channel=channel-3"),
        "{message}"
    );
    assert!(!place.at("host/run/cdi/job-8.json").exists());
}

#[test]
fn only_a_regular_file_is_replaced() {
    let place = Place::new();
    let _socket = UnixListener::bind(place.at("host/run/cdi/socket.json")).unwrap();
    symlink("job-7.json", place.at("host/run/cdi/link.json")).unwrap();
    for name in ["socket.json", "link.json"] {
        let message = place.err(
            &format!("generate --root host --channels 3 --output host/run/cdi/{name}"),
            3,
        );
        assert!(
            message.contains(&format!("{name} exists and is not a regular file")),
            "{message}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_compared_is_reported() {
    let place = Place::new();
    place.write("host/run/cdi/damaged.json", "{");
    let message = place.err(
        "generate --root host --channels 3 --output host/run/cdi/job-7.json",
        0,
    );
    assert!(
        message.contains("damaged.json") && message.contains("will not resolve"),
        "{message}"
    );
    assert!(place.at("host/run/cdi/job-7.json").exists());
}

#[test]
fn a_file_that_runtimes_do_not_read_conflicts_with_none() {
    let place = Place::new();
    for name in ["job-7.json", "job-7.JSON"] {
        place.out(
            &format!("generate --root host --channels 3 --output host/run/cdi/{name}"),
            0,
        );
    }
}
