//! Healthy hosts.

use super::host::{CLAIM, Host, KUBELET, PLUGIN, SPEC, kubelet};
use super::{stderr, stdout};

// req: DOCTOR-1
#[test]
fn a_healthy_host_is_one_screen() {
    let host = Host::healthy();
    let text = host.out("doctor", 0);
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.ends_with("\nhealthy\n"), "{text}");
    for line in [
        "driver       ok       module 580.82.07, /usr/lib64/libnvidia-ml.so.580.82.07",
        "channels     ok       2048 channels, major 235",
        "runtimes     ok       containerd 2.1.3",
        "claims       ok       1 in the checkpoint, 1 with a spec, 1 known to kubelet",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn info_findings_leave_a_host_healthy() {
    let host = Host::healthy();
    host.write("opt/kata/bin/kata-runtime", "");
    host.write("etc/subuid", "root:1:1\nkubelet:65536:7208960\n");
    host.write(&format!("{PLUGIN}/device-is-shared"), "64");
    let ids = host.ids(0);
    for id in [
        "fabric-not-read",
        "device-shared",
        "kata-present",
        "user-namespaces-possible",
    ] {
        assert!(ids.iter().any(|it| it == id), "{ids:?}");
    }
}

#[test]
fn a_gpu_without_driver_is_the_first_finding() {
    let host = Host::bare();
    host.gpu(None);
    let text = host.out("doctor", 1);
    assert!(
        text.starts_with("error: libnvidia-ml.so.1 [nvml-missing]\n"),
        "{text}"
    );
    assert!(text.lines().count() <= 24, "{text}");
    assert_eq!(host.ids(1), ["nvml-missing", "cdi-directory-absent"]);
}

#[test]
fn an_empty_root_is_no_host() {
    let output = Host::bare().run("doctor");
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(
        text.contains("is empty") && text.contains("mounted"),
        "{text}"
    );
}

#[test]
fn a_missing_root_is_not_a_healthy_host() {
    let host = Host::bare();
    host.remove("");
    let output = host.run("doctor");
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(3), "")
    );
}

#[test]
fn another_kubelet_root_is_read() {
    let host = Host::healthy();
    let moved = "var/snap/microk8s/common/var/lib/kubelet";
    std::fs::create_dir_all(host.at(moved)).unwrap();
    host.write(
        &format!("{moved}/plugins/compute-domain.nvidia.com/checkpoint.json"),
        Host::fixture("02-channel-completed.json"),
    );
    host.write(
        &format!("{moved}/plugins_registry/compute-domain.nvidia.com-reg.sock"),
        "",
    );
    host.remove(&format!("{PLUGIN}/checkpoint.json"));
    host.remove(KUBELET);
    host.remove(SPEC);
    let report = host.json(&format!("doctor --json --kubelet-root /{moved}"), 1);
    let first = report.pointer("/findings/0/id").unwrap();
    assert_eq!(first, "claim-without-spec");
    host.write(SPEC, super::host::spec("0.5.0", 235));
    host.write(&format!("{moved}/dra_manager_state"), kubelet(&[CLAIM]));
    host.out(&format!("doctor --kubelet-root /{moved}"), 0);
}
