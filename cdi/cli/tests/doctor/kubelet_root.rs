//! `doctor` on hosts whose kubelet has its root elsewhere: specs without
//! records are no sign of health.

use std::fs;

use super::host::{Host, SPEC};

const MICROK8S: &str = "var/snap/microk8s/common/var/lib/kubelet";

/// A healthy host whose kubelet has that root.
fn with_root(root: &str) -> Host {
    let host = Host::healthy();
    fs::create_dir_all(host.at(root).parent().unwrap()).unwrap();
    fs::rename(host.at("var/lib/kubelet"), host.at(root)).unwrap();
    host
}

/// The fix of the first finding, which is `id`.
fn fix_of_first(host: &Host, id: &str) -> String {
    let report = host.json("doctor --json", 1);
    assert_eq!(report.pointer("/findings/0/id").unwrap(), id, "{report:#}");
    let fix = report.pointer("/findings/0/fix").unwrap();
    fix.as_str().unwrap().to_owned()
}

#[test]
fn the_known_root_that_has_the_plugin_is_named() {
    for root in [MICROK8S, "var/lib/k0s/kubelet"] {
        let host = with_root(root);
        // Another root that exists, without the plugin.
        fs::create_dir_all(host.at("var/lib/kubelet/pods")).unwrap();
        let fix = fix_of_first(&host, "plugin-directory-absent");
        let flag = format!("--kubelet-root /{root}");
        assert!(
            fix.starts_with("cdi-gen doctor ") && fix.ends_with(&flag),
            "{fix}"
        );
        host.out(&format!("doctor {flag}"), 0);
    }
}

#[test]
fn the_fix_requests_an_unknown_root() {
    let host = with_root("opt/kubelet");
    let fix = fix_of_first(&host, "plugin-directory-absent");
    assert!(fix.contains("set --kubelet-root"), "{fix}");
    host.out("doctor --kubelet-root /opt/kubelet", 0);
}

#[test]
fn a_host_without_claims_needs_no_kubelet() {
    let host = with_root(MICROK8S);
    host.remove(SPEC);
    let text = host.out("doctor", 0);
    let line = format!("skipped  no kubelet in /var/lib/kubelet; /{MICROK8S} exists");
    assert!(text.contains(&line), "{text}");
}
