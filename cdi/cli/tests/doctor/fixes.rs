//! Fixes: those that are commands of this program do what they are said to do,
//! and what is said of a host has the host's names.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::host::{self, CLAIM, Host, SPEC, spec, text};

const ORPHAN: &str = "22222222-aaaa-4bbb-8ccc-000000000002";

fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let found = host::finding(report, id);
    assert!(found.is_some(), "no {id}: {report:#}");
    found.unwrap()
}

// req: DOCTOR-8
#[test]
fn a_spec_without_a_record_is_told_unless_the_record_may_be_lost() {
    let host = Host::healthy();
    let path = SPEC.replace(CLAIM, ORPHAN);
    host.write(&path, spec("0.5.0", 235).replace(CLAIM, ORPHAN));
    let report = host.json("doctor --json", 1);
    let fix = text(finding(&report, "spec-without-claim"), "fix");
    assert!(fix.contains("asks the API server"), "{fix}");
    let aside = "var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json.damaged-empty";
    for (path, text) in [(aside, ""), ("var/lib/kubelet/dra_manager_state", "{")] {
        let before = fs::read(host.at(path)).ok();
        host.write(path, text);
        let ids = host.ids(1);
        assert!(!ids.contains(&"spec-without-claim".to_owned()), "{ids:?}");
        match before {
            Some(before) => host.write(path, before),
            None => host.remove(path),
        }
    }
}

#[test]
fn from_a_debug_pod_it_is_told_once_how_commands_are_run_there() {
    let host = Host::healthy();
    assert!(!host.out("doctor", 0).contains("chroot"));
    host.write("etc/cdi/a.yml", "");
    host.write("run/cdi/b.tmp", "");
    let told = format!("`chroot {}`", host.at("").display());
    let shown = host.out("doctor", 1);
    assert_eq!(shown.matches("chroot").count(), 1, "{shown}");
    assert!(shown.contains(told.trim_end_matches("/`")), "{shown}");
    let report = host.json("doctor --json", 1);
    assert!(text(&report, "runFixes").contains("chroot"));
}

// req: DOCTOR-5
#[test]
fn what_is_said_of_a_host_has_the_hosts_paths() {
    let host = Host::healthy();
    host.write("etc/cdi/bad.json", "{");
    host.write("etc/cdi/bad\u{1b}.json", "{");
    host.write("opt/file", "");
    symlink("cdi", host.at("run/link")).unwrap();
    host.write(
        "proc/devices",
        "Character devices:\n240 nvidia-caps-imex-channels\n",
    );
    let words = "doctor --json --spec-dir /opt/file --spec-dir /run/link --spec-dir /etc/cdi \
                 --spec-dir /var/run/cdi";
    let report = host.json(words, 1);
    for (id, path) in [
        ("cdi-spec-malformed", "/etc/cdi/bad"),
        ("cdi-spec-stale-major", "(/proc/devices)"),
        ("cdi-directory-not-one", " /opt/file "),
        ("cdi-directory-link", " /run/link "),
    ] {
        let evidence = text(finding(&report, id), "evidence");
        assert!(evidence.contains(path), "{evidence}");
    }
    let root = host.at("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    for found in findings {
        for member in ["subject", "evidence"] {
            let said = text(found, member);
            assert!(!said.contains(root), "{said}");
        }
    }
}
