//! `cdi-gen inject`: which configs it accepts, and what it keeps of them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use super::{Place, stderr, stdout};

const CHANNEL: &str = "-d nvidia.com/imex-channel=0 --root host";

#[test]
fn another_document_is_not_mistaken_for_a_config() {
    let place = Place::new();
    place.write("empty.json", "{}");
    place.write("pod.json", r#"{"apiVersion":"v1","kind":"Pod"}"#);
    for (file, reason) in [
        (
            "host/run/cdi/nvidia.com-imex-channel.json",
            "is not an OCI config: it has cdiVersion, as CDI specs do; pass the config.json",
        ),
        (
            "host/etc/cdi/nvidia.com-gpu.yaml",
            "nvidia.com-gpu.yaml is not an OCI config: it has cdiVersion, as CDI specs do",
        ),
        (
            "empty.json",
            "empty.json is not an OCI config: it has no ociVersion",
        ),
        (
            "pod.json",
            "pod.json is not an OCI config: it has no ociVersion",
        ),
    ] {
        let before = place.read(file);
        let message = place.err(&format!("inject {file} --in-place {CHANNEL}"), 3);
        assert!(message.contains(reason), "{message}");
        assert_eq!(place.read(file), before);
    }
}

#[test]
fn a_second_backup_leaves_the_first_one() {
    let place = Place::new();
    let original = place.read("bundle/config.json");
    let command = format!("inject bundle/config.json --in-place --backup {CHANNEL}");
    place.out(&command, 0);
    let once = place.read("bundle/config.json");
    let output = place.run(&command);
    assert!(stderr(&output).contains("this one is config.json.bak.1"));
    assert_eq!(place.read("bundle/config.json.bak"), original);
    assert_eq!(place.read("bundle/config.json.bak.1"), once);
}

#[test]
fn a_rule_that_exists_is_added_again_and_marked() {
    let place = Place::new();
    place.out(
        &format!("inject bundle/config.json --in-place {CHANNEL}"),
        0,
    );
    let said = place.out(
        &format!("inject bundle/config.json --dry-run --explain {CHANNEL}"),
        0,
    );
    assert!(said.contains("\nallow c 235:0 rw (again) "), "{said}");
}

#[test]
fn in_place_keeps_owner_and_mode() {
    let place = Place::new();
    let config = place.at("bundle/config.json");
    // Only root may give a file away; others own theirs already.
    if fs::metadata(&config).unwrap().uid() == 0 {
        chown(&config, Some(1234), Some(4321)).unwrap();
    }
    fs::set_permissions(&config, fs::Permissions::from_mode(0o604)).unwrap();
    let before = fs::metadata(&config).unwrap();
    let output = place.run(&format!(
        "inject bundle/config.json --in-place --backup {CHANNEL}"
    ));
    assert_eq!(stderr(&output), "");
    for file in ["bundle/config.json", "bundle/config.json.bak"] {
        let after = fs::metadata(place.at(file)).unwrap();
        assert_eq!(
            (after.uid(), after.gid(), after.mode()),
            (before.uid(), before.gid(), before.mode()),
            "{file}"
        );
    }
}

// req: CDI-31
#[test]
fn a_container_in_a_user_namespace_needs_the_hosts_node() {
    let place = Place::new();
    let text = r#"{"ociVersion":"1.0.2","linux":{"namespaces":[{"type":"user"}]}}"#;
    place.write("user.json", text);
    let output = place.run(&format!("inject user.json {CHANNEL}"));
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains("has a user namespace, so runtimes mount the host's /dev/nvidia"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("channel0"));
    place.write("none.json", &text.replace("user", "pid"));
    assert_eq!(
        stderr(&place.run(&format!("inject none.json {CHANNEL}"))),
        ""
    );
}
