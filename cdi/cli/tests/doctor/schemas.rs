//! The README describes the documents that `--json` prints.

use super::host::{CLAIM, Host, SPEC, spec};
use super::schema::{Found, assert_documented, collect};

#[test]
fn of_doctor() {
    let mut found = Found::new();
    for (host, code) in [(Host::healthy(), 0), (Host::system(), 0)] {
        collect(&host.json("doctor --json", code), &[], &mut found);
    }
    assert_documented("cdi-gen/doctor/v1", &found);
}

#[test]
fn of_gc() {
    let mut found = Found::new();
    let host = Host::healthy();
    let other = "22222222-aaaa-4bbb-8ccc-000000000002";
    host.write(
        &SPEC.replace(CLAIM, other),
        spec("0.5.0", 235).replace(CLAIM, other),
    );
    collect(&host.json("gc --json", 1), &[], &mut found);
    collect(&host.json("gc --json --remove", 0), &[], &mut found);
    let mut failed = host.json("gc --json", 0);
    assert_eq!(failed.pointer("/orphans").unwrap(), &serde_json::json!([]));
    collect(&failed.take(), &[], &mut found);
    assert_documented("cdi-gen/gc/v1", &found);
}
