//! `doctor --bundle`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use super::host::{CLAIM, Host, SPEC, spec};
use super::{stderr, stdout};

fn unpacked(host: &Host) -> BTreeMap<String, String> {
    let file = fs::File::open(host.at("bundle.tar")).unwrap();
    let mut archive = tar::Archive::new(file);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    });
    entries.collect()
}

fn words(host: &Host) -> String {
    format!("doctor --bundle {}", host.at("bundle.tar").display())
}

// req: DOCTOR-7
#[test]
fn a_bundle_has_what_its_manifest_lists_and_nothing_secret() {
    let host = Host::healthy();
    host.containerd("2.1.3", "version = 3\n# s3cret\n");
    host.write("root/.kube/config", "s3cret");
    let with_env = r#""containerEdits":{"env":["TOKEN=s3cret"],"mounts":[{"hostPath":"/a","containerPath":"/b","options":["password=s3cret"]}],"#;
    let text = spec("0.5.0", 235).replace(r#""containerEdits":{"#, with_env);
    assert!(text.contains("s3cret"));
    host.write(SPEC, text);
    let output = host.run(&words(&host));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (shown, messages) = (stdout(&output), stderr(&output));
    let files = unpacked(&host);
    assert!(
        files.values().all(|text| !text.contains("s3cret")),
        "{files:#?}"
    );
    let manifest = files.get("cdi-gen-doctor/manifest.txt").unwrap();
    let messages: Vec<&str> = messages
        .lines()
        .filter_map(|line| line.strip_prefix("cdi-gen: in the bundle: "))
        .collect();
    assert_eq!(messages, manifest.lines().collect::<Vec<_>>());
    let listed: Vec<String> = manifest
        .lines()
        .map(|it| format!("cdi-gen-doctor/{it}"))
        .collect();
    let mut others: Vec<&String> = files
        .keys()
        .filter(|it| !it.ends_with("manifest.txt"))
        .collect();
    others.sort_by_key(|name| listed.iter().position(|it| it == *name));
    assert_eq!(others, listed.iter().collect::<Vec<_>>());
    let text = |name: &str| {
        files
            .get(&format!("cdi-gen-doctor/{name}"))
            .unwrap()
            .as_str()
    };
    assert_eq!(text("report.txt"), shown);
    assert!(text("report.json").contains("cdi-gen/doctor/v1"));
    assert_eq!(
        text("claims.txt"),
        format!(
            "{CLAIM} driver:compute-domain.nvidia.com checkpoint:PrepareCompleted cdi:spec \
             kubelet:prepared channel:0 domain:c0ffee00-1234-4567-89ab-0123456789ab\n"
        )
    );
    assert!(text("host/proc/devices").contains("nvidia-caps-imex-channels"));
    assert!(text(&format!("host/{SPEC}")).contains("TOKEN=(left out)"));
    let mode = host
        .at("bundle.tar")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn quotes_of_a_broken_file_are_printed_but_not_bundled() {
    let host = Host::healthy();
    for (path, text) in [
        (
            "run/cdi/env.json",
            r#"{"cdiVersion":"0.5.0","kind":"a.b/cc","devices":[],"containerEdits":{"env":"s3cret"}}"#,
        ),
        ("run/cdi/field.json", r#"{"s3cret":1}"#),
        ("run/cdi/text.yaml", "s3cret"),
    ] {
        host.write(path, text);
    }
    host.containerd("2.1.3", "version = 3\npassword = s3cret\n");
    let output = host.run(&words(&host));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("s3cret"), "{}", stdout(&output));
    let files = unpacked(&host);
    assert!(
        files.values().all(|text| !text.contains("s3cret")),
        "{files:#?}"
    );
    let report = files.get("cdi-gen-doctor/report.txt").unwrap();
    assert!(
        report.contains("env.json")
            && report.contains("(omitted: the evidence may quote the file)"),
        "{report}"
    );
}

// req: DOCTOR-7
#[test]
fn a_bundle_overwrites_nothing() {
    let host = Host::healthy();
    host.write("bundle.tar", "mine");
    let output = host.run(&words(&host));
    assert_eq!(output.status.code(), Some(3));
    let messages = stderr(&output);
    assert!(messages.contains("choose another name"), "{messages}");
    assert_eq!(fs::read_to_string(host.at("bundle.tar")).unwrap(), "mine");
}
