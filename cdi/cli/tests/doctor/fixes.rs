//! Fixes that are commands of this program work as described, and findings use the host's paths.

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
fn a_spec_without_a_record_is_reported_unless_the_record_may_be_lost() {
    let host = Host::healthy();
    let path = SPEC.replace(CLAIM, ORPHAN);
    host.write(&path, spec("0.5.0", 235).replace(CLAIM, ORPHAN));
    let report = host.json("doctor --json", 1);
    let fix = text(finding(&report, "spec-without-claim"), "fix");
    assert!(fix.contains("queries the API server"), "{fix}");
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
fn in_a_debug_pod_the_report_says_once_how_to_run_the_fixes() {
    let host = Host::healthy();
    assert!(!host.out("doctor", 0).contains("chroot"));
    host.write("etc/cdi/a.yml", "");
    host.write("run/cdi/b.tmp", "");
    let command = format!("`chroot {}`", host.at("").display());
    let shown = host.out("doctor", 1);
    assert_eq!(shown.matches("chroot").count(), 1, "{shown}");
    assert!(shown.contains(command.trim_end_matches("/`")), "{shown}");
    let report = host.json("doctor --json", 1);
    assert!(text(&report, "runFixes").contains("chroot"));
}

// req: DOCTOR-5
#[test]
fn findings_have_the_hosts_paths() {
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
            let quoted = text(found, member);
            assert!(!quoted.contains(root), "{quoted}");
        }
    }
}
