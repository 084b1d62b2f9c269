//! Runtimes that are known by their processes.

use std::os::unix::fs::symlink;

use serde_json::Value;

use super::host::Host;

const CONFIG: &str = "/opt/containerd/config.toml";
const ON: &str = "version = 3\n";
const OFF: &str = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n";

/// containerd runs as process 800, with a configuration of its own.
fn runs_with(host: &Host, word: &str, config: &str) {
    host.write("proc/800/status", "Name:\tcontainerd\nUid:\t0\t0\t0\t0\n");
    host.write(
        "proc/800/cmdline",
        format!("/opt/bin/containerd\0{word}{CONFIG}\0"),
    );
    host.write(CONFIG.trim_start_matches('/'), config);
}

fn first(host: &Host) -> (String, String) {
    let report = host.json("doctor --json", 1);
    let finding = report.pointer("/findings/0").unwrap();
    let text = |name| {
        finding
            .get(name)
            .and_then(Value::as_str)
            .unwrap()
            .to_owned()
    };
    (text("id"), text("subject"))
}

#[test]
fn one_that_runs_from_elsewhere_is_judged_by_its_own_configuration() {
    for word in ["--config\0", "--config=", "-c\0"] {
        let host = Host::healthy();
        host.remove("usr/bin/containerd");
        host.remove("etc/containerd");
        runs_with(&host, word, OFF);
        let (id, subject) = first(&host);
        assert_eq!(id, "runtime-cdi-off", "{word}");
        assert!(subject.contains(CONFIG), "{subject}");
        runs_with(&host, word, ON);
        host.out("doctor", 0);
    }
}

#[test]
fn of_several_files_the_one_that_has_to_be_changed_is_named() {
    let host = Host::healthy();
    host.containerd(
        "2.1.3",
        "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n\
         [plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n",
    );
    host.write("etc/containerd/conf.d/10-off.toml", OFF);
    host.write("etc/containerd/conf.d/20-other.toml", "version = 3\n");
    let (id, subject) = first(&host);
    assert_eq!(id, "runtime-cdi-off");
    assert!(subject.contains("conf.d/10-off.toml"), "{subject}");

    host.remove("etc/containerd/conf.d/10-off.toml");
    let dirs = "[crio.runtime]\ncdi_spec_dirs = ['/opt/cdi']\n";
    host.write("etc/crio/crio.conf.d/10-dirs.conf", dirs);
    host.write("etc/crio/crio.conf.d/20-other.conf", "[crio]\n");
    let (id, subject) = first(&host);
    assert_eq!(id, "runtime-spec-dirs");
    assert!(subject.contains("10-dirs.conf"), "{subject}");
}

#[test]
fn one_that_is_only_installed_runs_no_pods_beside_one_that_runs() {
    let host = Host::healthy();
    host.containerd("2.1.3", OFF);
    assert_eq!(first(&host).0, "runtime-cdi-off");
    runs_with(&host, "--config\0", ON);
    assert!(host.ids(0).contains(&"runtime-cdi-off".to_owned()));
}

#[test]
fn one_without_cri_is_there_for_others_than_kubelet() {
    let host = Host::healthy();
    let docker = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n";
    runs_with(&host, "--config\0", docker);
    let text = host.out("doctor", 0);
    assert!(text.contains("containerd 2.1.3\n"), "{text}");
    assert!(!text.contains(CONFIG), "{text}");
    // Nor does it stand in for the one that is to run pods.
    host.containerd("2.1.3", OFF);
    assert_eq!(first(&host).0, "runtime-cdi-off");
}

#[test]
fn any_users_process_may_have_the_name_and_is_not_believed() {
    let host = Host::healthy();
    runs_with(&host, "--config\0", OFF);
    host.write("proc/800/status", "Uid:\t0\t1000\t0\t0\n");
    host.out("doctor", 0);
    host.write("proc/800/status", "Uid:\t0\t0\t0\t0\n");
    host.remove("proc/800/root");
    symlink("/nonexistent", host.at("proc/800/root")).unwrap();
    host.out("doctor", 0);
}
