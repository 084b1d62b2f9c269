//! `cdi-gen inject` and `cdi-gen diff`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use super::{Place, stderr, stdout};

const CHANNEL: &str = "-d nvidia.com/imex-channel=0 --root host";

#[test]
fn a_container_gets_the_device_and_keeps_everything_else() {
    let place = Place::new();
    let text = place.out(&format!("inject bundle/config.json {CHANNEL}"), 0);
    let after: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        after["linux"]["devices"][0],
        json!({"path": "/dev/nvidia-caps-imex-channels/channel0", "type": "c", "major": 235,
            "minor": 0, "fileMode": 438, "uid": 1000, "gid": 1000})
    );
    assert_eq!(
        after["linux"]["resources"]["devices"][1],
        json!({"allow": true, "type": "c", "major": 235, "minor": 0, "access": "rw"})
    );
    assert_eq!(after["process"]["x-vendor"], json!({"kept": true}));
    // What it did not touch has its lines, in their order.
    let before = place.read("bundle/config.json");
    let mut lines = text.lines();
    let process = before
        .lines()
        .take_while(|line| !line.contains("\"linux\""));
    for line in process {
        assert_eq!(lines.next(), Some(line));
    }
}

#[test]
fn a_config_on_one_line_stays_on_one() {
    let place = Place::new();
    place.write("one.json", "{\"ociVersion\":\"1.0.2\"}");
    let text = place.out("inject one.json -d example.com/lamp=floor --root host", 0);
    assert!(
        text.starts_with("{\"ociVersion\":\"1.0.2\",") && !text.contains('\n'),
        "{text}"
    );
    assert!(text.contains("\"LAMP=floor\""), "{text}");
}

// req: DOCTOR-10
#[test]
fn every_name_that_does_not_resolve_is_explained_and_nothing_is_written() {
    let place = Place::new();
    let before = place.read("bundle/config.json");
    let message = place.err(
        "inject bundle/config.json --in-place -d nvidia.com/gpu=7 -d example.com/lamp=floor \
         -d example.com/lamp=desk -d example.com/net=eth1 --root host",
        4,
    );
    assert!(
        message.starts_with("cdi-gen: 3 devices do not resolve; nothing was written\n"),
        "{message}"
    );
    for reason in [
        "nvidia.com/gpu=7 does not resolve: no valid CDI spec defines",
        "example.com/lamp=desk does not resolve: CDI device example.com/lamp=desk is defined in more",
        "refused   CDI spec host/etc/cdi/example.com-net.yaml is not valid",
    ] {
        assert!(message.contains(reason), "{reason}: {message}");
    }
    assert!(!message.contains("lamp=floor does not"), "{message}");
    assert_eq!(place.read("bundle/config.json"), before);
    assert_eq!(fs::read_dir(place.at("bundle")).unwrap().count(), 1);
}

#[test]
fn a_spec_that_needs_the_hosts_node_fails_without_it_and_writes_nothing() {
    let place = Place::new();
    let message = place.err(
        "inject bundle/config.json -d nvidia.com/gpu=0 --root host",
        1,
    );
    assert!(
        message.contains("cannot inspect /dev/nvidia0 on the host"),
        "{message}"
    );
}

#[test]
fn in_place_keeps_mode_and_link_and_optionally_a_backup() {
    let place = Place::new();
    let before = place.read("bundle/config.json");
    fs::set_permissions(
        place.at("bundle/config.json"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    symlink("bundle/config.json", place.at("link.json")).unwrap();
    let said = place.out(
        &format!("inject link.json --in-place --backup {CHANNEL}"),
        0,
    );
    assert_eq!(said, "");
    assert!(place.at("link.json").is_symlink());
    assert!(place.read("bundle/config.json").contains("\"major\": 235"));
    assert_eq!(place.read("bundle/config.json.bak"), before);
    for file in ["bundle/config.json", "bundle/config.json.bak"] {
        let mode = fs::metadata(place.at(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{file}");
    }
    assert_eq!(fs::read_dir(place.at("bundle")).unwrap().count(), 2);
}

#[test]
fn a_dry_run_shows_the_changes_and_where_they_come_from() {
    let place = Place::new();
    let before = place.read("bundle/config.json");
    let said = place.out(
        &format!(
            "inject bundle/config.json --dry-run --explain {CHANNEL} -d example.com/lamp=floor"
        ),
        0,
    );
    assert!(said.contains("+ process.env[LAMP]: \"floor\"\n"), "{said}");
    assert!(
        said.contains("+ linux.devices[/dev/nvidia-caps-imex-channels/channel0]: "),
        "{said}"
    );
    assert!(said.contains("devices[1].containerEdits.env[0]"), "{said}");
    assert!(
        said.contains("host/run/cdi/nvidia.com-imex-channel.json"),
        "{said}"
    );
    assert_eq!(place.read("bundle/config.json"), before);
}

#[test]
fn an_explanation_does_not_get_into_the_result() {
    let place = Place::new();
    let output = place.run(&format!("inject bundle/config.json --explain {CHANNEL}"));
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
    assert!(stderr(&output).starts_with("EDIT "), "{}", stderr(&output));
}

#[test]
fn a_document_that_is_not_a_config_is_one_clear_error() {
    let place = Place::new();
    place.write("list.json", "[]");
    place.write("torn.json", "{\"ociVersion\":");
    place.write(
        "odd.json",
        "{\"ociVersion\":\"1.0.2\",\"process\":{\"env\":7}}",
    );
    for (input, code, reason) in [
        ("none.json", 3, "cannot read none.json"),
        ("bundle", 3, "cannot read bundle: it is a directory"),
        ("torn.json", 3, "torn.json is not JSON"),
        (
            "list.json",
            3,
            "list.json is not an OCI config: OCI config: the whole is not an object",
        ),
        (
            "odd.json",
            3,
            "odd.json is not an OCI config: OCI config: /process/env is not an array",
        ),
        (
            "- --in-place",
            2,
            "standard input cannot be changed in place",
        ),
    ] {
        let message = place.err(&format!("inject {input} {CHANNEL}"), code);
        assert!(message.contains(reason), "{input}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    place.err(
        "inject bundle/config.json -d nvidia.com/gpu= --root host",
        2,
    );
    place.err("inject bundle/config.json --root host", 2);
}

// === diff ===

#[test]
fn two_texts_of_one_spec_are_the_same() {
    let place = Place::new();
    place.write(
        "a.yaml",
        "cdiVersion: v0.3.0\nkind: a/b\ndevices:\n- name: x\n  containerEdits:\n    env: [A=1, B=2]\n    \
         deviceNodes:\n    - {path: /dev/x, type: c, major: 1, fileMode: 0666}\n\
         - name: z\n  containerEdits:\n    additionalGids: []\n    env: [C=3]\n",
    );
    place.write(
        "b.json",
        r#"{"kind":"a/b","cdiVersion":"0.3.0","devices":[
            {"name":"z","containerEdits":{"env":["C=3"]}},
            {"name":"x","containerEdits":{"env":["B=2","A=0","A=1"],"deviceNodes":[
                {"path":"/dev/x","type":"c","major":1,"minor":0,"fileMode":438,"permissions":"rwm"}]}}]}"#,
    );
    assert_eq!(place.out("diff a.yaml b.json", 0), "");
}

#[test]
fn the_order_of_hooks_of_one_moment_counts() {
    let place = Place::new();
    let spec = |hooks: &str| {
        format!(
            r#"{{"kind":"a/b","cdiVersion":"0.3.0","devices":[{{"name":"x","containerEdits":{{"hooks":[{hooks}]}}}}]}}"#
        )
    };
    let hook = |name: &str, path: &str| format!(r#"{{"hookName":"{name}","path":"{path}"}}"#);
    let (one, two) = (hook("prestart", "/1"), hook("prestart", "/2"));
    let other = hook("poststop", "/3");
    place.write("a.json", &spec(&format!("{one},{two},{other}")));
    place.write("b.json", &spec(&format!("{other},{one},{two}")));
    place.write("c.json", &spec(&format!("{two},{one},{other}")));
    place.out("diff a.json b.json", 0);
    let said = place.out("diff a.json c.json", 1);
    assert!(
        said.starts_with("~ devices[x].containerEdits.hooks[prestart][0].path: \"/1\" -> \"/2\"\n"),
        "{said}"
    );
}

#[test]
fn configs_are_compared_and_the_order_of_mounts_counts_where_one_hides_another() {
    let place = Place::new();
    let config = |mounts: &[&str]| {
        let mounts: Vec<Value> = mounts.iter().map(|at| json!({"destination": at})).collect();
        json!({"ociVersion": "1.0.2", "mounts": mounts}).to_string()
    };
    place.write("a.json", &config(&["/a", "/a/b", "/c"]));
    place.write("b.json", &config(&["/c", "/a", "/a/b"]));
    place.write("c.json", &config(&["/a/b", "/a", "/c"]));
    place.out("diff a.json b.json", 0);
    assert!(
        place
            .out("diff a.json c.json", 1)
            .contains("mounts[/a/b].(after)")
    );
    let text = place.out(&format!("inject bundle/config.json {CHANNEL}"), 0);
    place.write("after.json", &text);
    let said = place.out("diff bundle/config.json after.json", 1);
    assert_eq!(
        said,
        place.out(&format!("inject bundle/config.json --dry-run {CHANNEL}"), 0)
    );
}

#[test]
fn documents_that_cannot_be_compared_are_an_error() {
    let place = Place::new();
    let message = place.err(
        "diff bundle/config.json host/etc/cdi/nvidia.com-gpu.yaml",
        3,
    );
    assert!(message.contains("are not of the same kind"), "{message}");
    place.err(
        "diff host/etc/cdi/example.com-net.yaml host/etc/cdi/nvidia.com-gpu.yaml",
        3,
    );
    let output = place.run("diff none.json none.json");
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(3), String::new())
    );
}
