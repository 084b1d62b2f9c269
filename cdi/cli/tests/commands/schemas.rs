//! `docs/reference/cdi-gen-json.md` describes the documents that `--json` prints.

use serde_json::Value;

use super::Place;
use super::many::repeated_variables;
use super::prepared::{Prepared, write_checkpoint};
use super::schema::{Found, assert_documented, collect};

/// The page has every field of the documents of `commands`.
fn assert_schema(schema: &str, opaque: &[&str], commands: &[(&str, i32)]) {
    let place = Place::new();
    place.write("host/etc/cdi/example.com-bulb.json", "{\"cdiVersion\":");
    place.write("many.json", &repeated_variables(102));
    std::os::unix::fs::symlink("../run/cdi", place.at("host/etc/link")).unwrap();
    let claim = Prepared::new("11111111-aaaa-4bbb-8ccc-000000000001", "a-domain", 0);
    let plugin = "host/var/lib/kubelet/plugins/compute-domain.nvidia.com";
    write_checkpoint(&place.at(plugin), "a-boot", &[claim]);
    let mut found = Found::new();
    for (command, code) in commands {
        let document: Value = serde_json::from_str(&place.out(command, *code)).unwrap();
        assert_eq!(document.get("schema").unwrap(), schema, "{command}");
        collect(&document, opaque, &mut found);
    }
    assert_documented(schema, &found);
}

#[test]
fn of_list() {
    assert_schema(
        "cdi-gen/list/v1",
        &[],
        &[
            ("list --json --root host", 1),
            ("list --json --root host --spec-dir /opt/cdi", 1),
            (
                "list --json --root host --spec-dir /etc/link --spec-dir /none",
                3,
            ),
        ],
    );
}

#[test]
fn of_gpus() {
    assert_schema(
        "cdi-gen/gpus/v1",
        &["majors"],
        &[
            ("gpus --json --root gpu-host", 0),
            ("gpus --json --root gpu-without-module", 1),
        ],
    );
}

#[test]
fn of_show() {
    assert_schema(
        "cdi-gen/show/v1",
        &["containerEdits", "annotations"],
        &[
            ("show --json --root host nvidia.com/imex-channel=0", 0),
            ("show --json --root host nvidia.com/gpu=0", 1),
            (
                "show --json --root host host/etc/cdi/nvidia.com-gpu.yaml",
                1,
            ),
        ],
    );
}

#[test]
fn of_validate() {
    assert_schema(
        "cdi-gen/validate/v1",
        &[],
        &[
            ("validate --json --root host --for podman-4.9.3", 1),
            ("validate --json --root host --spec-dir /etc/link", 1),
            ("validate --json many.json", 1),
        ],
    );
}

#[test]
fn of_why() {
    assert_schema(
        "cdi-gen/why/v1",
        &[],
        &[
            ("why --json --root host nvidia.com/imex-channel=0", 0),
            ("why --json --root host nvidia.com/gpu=0", 1),
            ("why --json --root host example.com/lamp=desk", 4),
            ("why --json --root host example.com/net=eth1", 4),
            ("why --json --root host example.com/fan=1", 4),
            (
                "why --json --root host nvidia.com/GPU=0 --spec-dir /none --spec-dir /etc/cdi",
                4,
            ),
            (
                "why --json --root host nvidia.com/GPU=0 --spec-dir /etc/link",
                4,
            ),
        ],
    );
}
