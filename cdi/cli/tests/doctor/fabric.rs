//! The driver's library, and obstacles between it and the fabric.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::host::{Host, library};

/// The evidence and the fix of the first finding, which is `id`.
fn first(host: &Host, id: &str) -> (String, String) {
    let report = host.json("doctor --json", 1);
    let member = |name: &str| {
        let found = report.pointer(&format!("/findings/0/{name}"));
        found.and_then(Value::as_str).unwrap().to_owned()
    };
    assert_eq!(member("id"), id, "{report:#}");
    (member("evidence"), member("fix"))
}

#[test]
fn a_library_without_its_link_is_named_with_the_command_that_makes_it() {
    let host = Host::healthy();
    host.remove("usr/lib64/libnvidia-ml.so.1");
    let (evidence, fix) = first(&host, "nvml-missing");
    assert_eq!(
        evidence,
        "/usr/lib64/libnvidia-ml.so.1 does not exist, \
         but libnvidia-ml.so.580.82.07 is in the same directory"
    );
    assert!(fix.starts_with("run `ldconfig`"), "{fix}");

    let link = host.at("usr/lib64/libnvidia-ml.so.1");
    symlink("libnvidia-ml.so.580.82.07", link).unwrap();
    host.out("doctor", 0);
}

#[test]
fn the_fix_removes_a_non_library_from_the_librarys_path() {
    let host = Host::healthy();
    host.remove("usr/lib64");
    fs::create_dir_all(host.at("usr/lib64/libnvidia-ml.so.1")).unwrap();
    let (evidence, fix) = first(&host, "nvml-missing");
    assert!(evidence.ends_with("is not a regular file"), "{evidence}");
    assert!(fix.starts_with("remove the directory or link"), "{fix}");

    host.remove("usr/lib64");
    host.write("usr/lib64/libnvidia-ml.so.1", library());
    host.out("doctor", 0);
}
