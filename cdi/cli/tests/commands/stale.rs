//! Majors of IMEX channels that are not the driver's, and nodes that the host lacks
//! or that differ.

use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{Place, stderr, stdout};

const CHANNEL: &str = "nvidia.com/imex-channel=0";
const REASON: &str = "major 235 is not the major of nvidia-caps-imex-channels, which is 236 \
                      (host/proc/devices)";

/// A host on which the driver was loaded again since the specs were written.
fn reloaded() -> Place {
    let place = Place::new();
    let list = place.read("host/proc/devices");
    let list = list.replace("235 nvidia-caps-imex", "236 nvidia-caps-imex");
    place.write("host/proc/devices", &list);
    place
}

#[test]
fn every_command_reports_a_major_that_is_not_the_drivers() {
    let place = reloaded();
    let file = "host/run/cdi/nvidia.com-imex-channel.json";
    let why = place.out(&format!("why {CHANNEL} --root host"), 1);
    assert!(why.starts_with(&format!("{CHANNEL} resolves to {file}, but ")));
    assert!(why.contains(REASON) && why.contains("  fix       let the driver rewrite the spec"));
    let output = place.run("list --root host --spec-dir /var/run/cdi");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("  stale  "), "{}", stdout(&output));
    assert!(stderr(&output).contains(REASON) && stderr(&output).contains("cdi-gen generate"));
    let output = place.run(&format!("show {CHANNEL} --root host"));
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("  stale\n") && stderr(&output).contains(REASON));
    let printed = place.out(&format!("validate {file} --root host"), 1);
    assert!(printed.contains(": warn: ") && printed.contains(REASON));
    assert!(printed.contains("[imex-channel-major-stale]"), "{printed}");
}

#[test]
fn a_major_of_another_driver_is_reported() {
    let place = Place::new();
    let list = place.read("host/proc/devices");
    let list = list.replace("235 nvidia-caps-imex-channels", "235 nvidia-uvm");
    place.write("host/proc/devices", &list);
    let why = place.out(&format!("why {CHANNEL} --root host"), 1);
    let reason = "major 235 belongs to nvidia-uvm (host/proc/devices)";
    assert!(why.contains(reason), "{why}");
    assert!(
        place
            .out("validate host/run/cdi --root host", 1)
            .contains(reason)
    );
    // A file may be for another host, one with the driver.
    let file = "host/run/cdi/nvidia.com-imex-channel.json";
    place.out(&format!("validate {file} --root host"), 0);
}

#[test]
fn without_a_device_list_no_major_is_reported() {
    let place = Place::new();
    std::fs::remove_file(place.at("host/proc/devices")).unwrap();
    place.out(&format!("why {CHANNEL} --root host"), 0);
}

#[test]
fn a_major_option_that_is_not_the_drivers_is_reported() {
    let place = Place::new();
    let output = place.run("generate --channels 0 --root host --major 195");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output)
            .contains("major 195 is not the major of nvidia-caps-imex-channels, which is 235"),
        "{}",
        stderr(&output)
    );
    let output = place.run("generate --channels 0 --root host --major 235");
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_device_whose_node_the_host_lacks_is_unusable_and_why_says_so() {
    let place = Place::new();
    let why = place.out("why nvidia.com/gpu=0 --root host", 1);
    for part in [
        "nvidia.com/gpu=0 resolves to host/etc/cdi/nvidia.com-gpu.yaml, but ",
        "cannot inspect /dev/nvidia0 on the host: No such file",
        "  node      /dev/nvidia0: missing\n",
        "  fix       load the driver that creates the ",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    symlink("nvidia1", place.at("host/dev/nvidia0")).unwrap();
    let why = place.out("why nvidia.com/gpu=0 --root host", 1);
    assert!(why.contains("is not a device node"), "{why}");
    assert!(why.contains("  node      /dev/nvidia0: differs: a symbolic link\n"));
    let list = place.run("list --root host");
    assert!(stdout(&list).contains("differs: a symbolic link"));
    let text = place.out("show --json nvidia.com/gpu=0 --root host", 1);
    let shown: Value = serde_json::from_str(&text).unwrap();
    let node = &shown["devices"][0]["nodes"][0];
    assert_eq!(node["found"], "a symbolic link");
    assert!(
        node["fix"]
            .as_str()
            .unwrap()
            .contains("links are not followed")
    );
}

#[test]
fn a_list_of_resolving_devices_is_not_clean_if_the_host_lacks_their_nodes() {
    let place = Place::new();
    std::fs::create_dir(place.at("host/gpu")).unwrap();
    std::fs::copy(
        place.at("host/etc/cdi/nvidia.com-gpu.yaml"),
        place.at("host/gpu/gpu.yaml"),
    )
    .unwrap();
    let output = place.run("list --root host --spec-dir /gpu");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "cdi-gen: host/gpu/gpu.yaml: the spec takes /dev/nvidia0 from the host, but the host has no such device node (and 1 more like it); load the driver that creates the device node, or set type, major and minor in the spec\n"
    );
}

#[test]
fn mount_sources_and_hook_programs_are_checked_on_the_host() {
    let place = Place::new();
    let library = "usr/lib64/libcuda.so.570.158.01";
    let spec = format!(
        r#"{{"cdiVersion": "0.5.0", "kind": "example.com/gpu",
        "devices": [{{"name": "0", "containerEdits": {{"env": ["A=1"]}}}}],
        "containerEdits": {{
            "mounts": [{{"hostPath": "/{library}", "containerPath": "/a", "options": ["rbind"]}}],
            "hooks": [{{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook"}}]
        }}}}"#
    );
    place.write("host/etc/cdi/gpu.json", &spec);
    let host_column = || {
        let show = place.out("show example.com/gpu=0 --root host", 0);
        let lines = show
            .lines()
            .filter(|line| ["mounts[0]", "hooks[0]"].iter().any(|it| line.contains(it)));
        let words = lines.filter_map(|line| line.split_whitespace().last().map(str::to_owned));
        words.collect::<Vec<_>>()
    };
    assert_eq!(host_column(), ["exists", "exists"]);
    place.out("why example.com/gpu=0 --root host", 0);
    let list = place.run("list example.com/gpu --root host");
    assert!(!stdout(&list).contains("missing"), "{}", stdout(&list));

    // The driver was updated.
    std::fs::remove_file(place.at(&format!("host/{library}"))).unwrap();
    assert_eq!(host_column(), ["missing", "exists"]);
    let why = place.out("why example.com/gpu=0 --root host --json", 1);
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(why["answer"], "unusable");
    assert_eq!(why["code"], "host-path-missing");
    let list = place.run("list example.com/gpu --root host");
    assert_eq!(list.status.code(), Some(1));
    assert!(stdout(&list).contains("  missing  "), "{}", stdout(&list));
    let note = stderr(&list);
    assert!(
        note.contains("libcuda.so.570.158.01, which does not exist on the host"),
        "{note}"
    );
}

#[test]
fn a_kind_that_crashes_runtimes_is_reported_even_if_it_resolves() {
    let place = Place::new();
    let spec = r#"{"cdiVersion": "0.5.0", "kind": "a.com/b",
        "devices": [{"name": "x", "containerEdits": {"env": ["A=1"]}}]}"#;
    place.write("host/etc/cdi/a.json", spec);
    let why = place.out("why a.com/b=x --root host", 1);
    assert!(
        why.contains("has only one letter: Go's CDI library up to 1.1.0 panics"),
        "{why}"
    );
    let list = place.run("list a.com/b --root host");
    assert_eq!(list.status.code(), Some(1));
    assert!(
        stderr(&list).contains("only one letter"),
        "{}",
        stderr(&list)
    );
}
