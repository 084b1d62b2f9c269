//! `cdi-gen list`, `show`, `validate` and `why`, beyond what COMMANDS.md shows.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{Place, stderr, stdout};

fn json(place: &Place, words: &str, code: i32) -> Value {
    serde_json::from_str(&place.out(words, code)).unwrap()
}

// req: DOCTOR-9
#[test]
fn a_healthy_host_is_listed_with_nothing_on_stderr() {
    let place = Place::new();
    let output = place.run("list --root host --spec-dir /var/run/cdi");
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
    assert_eq!(stdout(&output).lines().count(), 3);
}

#[test]
fn a_host_without_specs_has_no_device_and_that_is_no_error() {
    let place = Place::new();
    let output = place.run("list --root bundle");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stdout(&output),
        "DEVICE  STATE  CHANNEL  DOMAIN  VERSION  HOST  FILE\n"
    );
    assert_eq!(
        stderr(&output),
        "cdi-gen: no CDI device in bundle/etc/cdi (does not exist), bundle/var/run/cdi (does not \
         exist)\n"
    );
}

#[test]
fn a_root_that_does_not_exist_is_not_a_host_without_devices() {
    let place = Place::new();
    for words in [
        "list",
        "show a/b=c",
        "why a/b=c",
        "validate",
        "generate --channels 0",
    ] {
        let message = place.err(&format!("{words} --root none"), 3);
        assert!(
            message.contains("cannot list the root directory none"),
            "{words}: {message}"
        );
    }
}

#[test]
fn one_bad_file_hides_no_device_and_is_reported() {
    let place = Place::new();
    let output = place.run("list --root host");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("nvidia.com/gpu=all "));
    assert!(stderr(&output).contains("example.com-net.yaml is not valid"));
}

#[test]
fn shadowed_devices_name_the_file_that_wins() {
    let place = Place::new();
    let list = json(&place, "list --json --root host", 1);
    let devices = list["devices"].as_array().unwrap();
    let of = |file: &str, name: &str| {
        let found = devices.iter().find(|device| {
            device["name"] == name && device["file"].as_str().unwrap().ends_with(file)
        });
        found.unwrap().clone()
    };
    let shadowed = of(
        "etc/cdi/nvidia.com-imex-channel.json",
        "nvidia.com/imex-channel=0",
    );
    assert_eq!(shadowed["state"], "shadowed");
    assert_eq!(
        shadowed["shadowedBy"],
        "host/run/cdi/nvidia.com-imex-channel.json"
    );
    assert_eq!(shadowed["nodes"][0]["state"], "missing");
    let winner = of(
        "run/cdi/nvidia.com-imex-channel.json",
        "nvidia.com/imex-channel=0",
    );
    assert_eq!(winner["state"], "resolves");
    assert_eq!(winner["nodes"][0]["state"], "absent");
    assert_eq!(winner["nodes"][0]["declared"], "c 235:0");
    let torn = of("example.com-lamp_new.json", "example.com/lamp=desk");
    assert_eq!(torn["state"], "conflict");
    assert_eq!(
        torn["conflictsWith"][0],
        "host/etc/cdi/example.com-lamp.json"
    );
}

#[test]
fn a_file_is_shown_from_anywhere_and_a_device_only_if_it_resolves() {
    let place = Place::new();
    fs::rename(
        place.at("host/etc/cdi/nvidia.com-gpu.yaml"),
        place.at("a=b.yaml"),
    )
    .unwrap();
    let shown = json(&place, "show --json a=b.yaml", 1);
    assert_eq!(shown["devices"].as_array().unwrap().len(), 2);
    assert_eq!(shown["priority"], Value::Null);
    assert_eq!(shown["needs"][0]["version"], "0.5.0");
    assert!(
        place
            .err("show nvidia.com/gpu=0 --root host", 4)
            .contains("does not resolve")
    );
    assert!(
        place
            .err("show none.yaml", 3)
            .contains("cannot read none.yaml")
    );
}

#[test]
fn a_file_that_is_not_a_spec_is_not_quoted_because_it_may_hold_secrets() {
    let place = Place::new();
    let lines = [
        "root:$6$salt$hash:20228:0:99999:7:::",
        "token-of-another-0123456789-0123456789-0123456789",
        "{\"password of the house\": 1}",
    ];
    for text in lines {
        place.write("secret", &format!("{text}\n{text}\n"));
        for command in ["show ./secret", "validate secret", "show ./secret --json"] {
            let output = place.run(command);
            let printed = stdout(&output) + &stderr(&output);
            for word in ["salt", "0123456789", "password"] {
                assert!(!printed.contains(word), "{command}: {printed}");
            }
            assert!(!output.status.success());
        }
    }
}

#[test]
fn standard_input_is_a_file_too() {
    let place = Place::new();
    let spec = fs::File::open(place.at("host/run/cdi/nvidia.com-imex-channel.json")).unwrap();
    let output = place
        .command("validate - --root host")
        .stdin(spec)
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "/dev/stdin: OK\n");
}

#[test]
fn all_inputs_are_validated_also_after_one_that_cannot_be_read() {
    let place = Place::new();
    symlink("host/run/cdi", place.at("dir")).unwrap();
    let output = place.run("validate none.json dir bundle/config.json --root host");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("cannot read none.json"));
    assert!(stderr(&output).ends_with("cdi-gen: 1 of 4 files cannot be read\n"));
    assert!(stdout(&output).contains("nvidia.com-imex-channel.json: OK\n"));
    assert!(stdout(&output).contains("bundle/config.json: error: this file is an OCI config"));
}

#[test]
fn warnings_count_unless_only_errors_do() {
    let place = Place::new();
    let file = "host/etc/cdi/nvidia.com-gpu.yaml";
    let printed = place.out(&format!("validate {file}"), 1);
    assert!(
        printed.contains(": warn: ") && printed.contains("[cdi-version-too-high]"),
        "{printed}"
    );
    assert_eq!(
        place.out(&format!("validate --level error {file}"), 0),
        format!("{file}: OK\n")
    );
}

#[test]
fn for_reports_versions_and_fields_that_a_runtime_does_not_support() {
    let place = Place::new();
    place.write(
        "new.json",
        r#"{"cdiVersion":"0.7.0","kind":"aa/bb","devices":[{"name":"c","containerEdits":{"additionalGids":[44]}}]}"#,
    );
    for (target, code) in [
        ("containerd-1.7.0", 1),
        ("containerd-2.1", 0),
        ("podman-4.9.3", 1),
        ("podman-5.1.0", 0),
        ("cri-o-1.34", 0),
    ] {
        let printed = place.out(&format!("validate new.json --for {target}"), code);
        assert_eq!(
            printed.contains("leave out devices[0].containerEdits.additionalGids"),
            code == 1
        );
    }
    for target in ["docker-24.0", "cri-o-1.23", "containerd", "podman-3"] {
        let message = place.err(&format!("validate new.json --for {target}"), 2);
        assert!(message.contains("known runtimes"), "{message}");
    }
}

#[test]
fn why_finds_ignored_files_and_near_misses() {
    let place = Place::new();
    fs::create_dir(place.at("host/etc/cdi/more")).unwrap();
    place.write(
        "host/etc/cdi/more/x.json",
        r#"{"cdiVersion":"0.3.0","kind":"example.com/sub","devices":[{"name":"one","containerEdits":{"env":["A=b"]}}]}"#,
    );
    for (name, reason) in [
        ("example.com/sub=one", "runtimes do not read subdirectories"),
        (
            "example.com/fan=1",
            "runtimes read only files that end in .json or .yaml",
        ),
        (
            "nvidia.com/Gpu=all",
            "near      nvidia.com/gpu=all in host/etc/cdi/nvidia.com-gpu.yaml",
        ),
        ("example.com/net=eth1", "needs version 1.1.0"),
        (
            "example.com/none=x",
            "no device name of kind example.com/none resolves",
        ),
    ] {
        let printed = place.out(&format!("why {name} --root host"), 4);
        assert!(printed.contains(reason), "{name}: {printed}");
        assert!(
            printed.lines().last().unwrap().starts_with("  fix       "),
            "{printed}"
        );
    }
    for (name, fix) in [
        ("nonsense", "vendor/class=device"),
        ("nvidia.com/gpu", "vendor/class=device"),
    ] {
        let message = place.err(&format!("why {name} --root host"), 2);
        assert!(message.contains(fix), "{message}");
    }
}
