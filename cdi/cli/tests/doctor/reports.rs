//! Hosts of public bug reports, each with what doctor has to find there.

use serde_json::Value;

use super::host::{Host, text};

/// Severity, id, subject and fix of each finding about runtimes.
fn found(host: &Host, words: &str) -> Vec<[String; 4]> {
    let output = host.run(&format!("doctor --json {words}"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    let ours = findings
        .iter()
        .filter(|it| text(it, "id").starts_with("runtime-"));
    ours.map(|it| ["severity", "id", "subject", "fix"].map(|name| text(it, name).to_owned()))
        .collect()
}

/// Fails unless these, and no others, are found: severity, id, and parts of subject and fix.
fn assert_found(host: &Host, words: &str, expected: &[[&str; 4]]) {
    let found = found(host, words);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (one, [severity, id, subject, fix]) in found.iter().zip(expected) {
        assert_eq!(one[..2], [severity.to_owned(), id.to_owned()], "{one:?}");
        assert!(one[2].contains(subject), "{one:?}");
        assert!(one[3].contains(fix), "{one:?}");
    }
}

/// A healthy node without its containerd.
fn without_containerd() -> Host {
    let host = Host::healthy();
    host.remove_containerd();
    host.remove("var/lib/dpkg/status");
    host
}

/// podman#26569 (5.5 reads one directory), podman#16232 (`/usr/share/containers`).
#[test]
fn podman_is_listed_and_not_judged() {
    for version in ["5.4.1", "5.5.1", "5.6.0-1"] {
        let host = Host::bare();
        host.write("usr/bin/podman", "");
        host.packages(&[("podman", version)]);
        host.write(
            "usr/share/containers/containers.conf",
            "[engine]\ncdi_spec_dirs = [\"/opt/site/cdi\"]\n",
        );
        let subject = format!("podman {}", version.trim_end_matches("-1"));
        let listed = ["info", "runtime-not-judged", &subject, "podman --help"];
        assert_found(&host, "", &[listed]);
    }
}

/// Mirantis/cri-dockerd#558, #522.
#[test]
fn cri_dockerd_has_no_cdi_whatever_docker_is_configured_for() {
    let host = without_containerd();
    for program in ["dockerd", "containerd", "cri-dockerd"] {
        host.write(&format!("usr/bin/{program}"), "");
    }
    host.write("etc/docker/daemon.json", r#"{"features":{"cdi":true}}"#);
    host.write(
        "etc/containerd/config.toml",
        "disabled_plugins = [\"cri\"]\n",
    );
    host.packages(&[
        ("docker-ce", "5:29.4.0-1~ubuntu.22.04~jammy"),
        ("cri-dockerd", "0.4.2~3-0~ubuntu-jammy"),
    ]);
    host.root_process(800, "containerd", "/usr/bin/containerd");
    host.root_process(820, "cri-dockerd", "/usr/bin/cri-dockerd");
    let without = [
        "error",
        "runtime-without-cdi",
        "cri-dockerd 0.4.2",
        "containerd or CRI-O",
    ];
    let listed = |subject| ["info", "runtime-not-judged", subject, ""];
    let all = [without, listed("containerd"), listed("docker 29.4.0")];
    assert_found(&host, "", &all);
    let endpoint = "--container-runtime-endpoint=unix:///var/run/cri-dockerd.sock";
    host.root_process(900, "kubelet", &format!("/usr/bin/kubelet {endpoint}"));
    assert_found(&host, "", &all);
    host.json("doctor --json", 1);
}

/// NVIDIA/nvidia-container-toolkit#982.
#[test]
fn beside_docker_it_is_k3s_containerd_that_serves_k3s_kubelet() {
    let host = without_containerd();
    let config = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
    let table = "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\"]\n";
    host.write(&config[1..], format!("{table}enable_selinux = false\n"));
    host.write("usr/bin/dockerd", "");
    host.root_process(800, "containerd", "/usr/bin/containerd");
    host.root_process(801, "containerd", &format!("containerd -c {config}"));
    let listed = |subject| ["info", "runtime-not-judged", subject, ""];
    let question = "unix:///run/k3s/containerd/containerd.sock";
    let unknown = ["info", "runtime-cdi-unknown", config, question];
    let beside = [listed("containerd"), listed("docker")];
    assert_found(&host, "", &[unknown, beside[0], beside[1]]);
    host.write(&config[1..], format!("{table}enable_cdi = true\n"));
    assert_found(&host, "", &beside);
}

/// cri-o#3123: the directory of drop-ins is walked to any depth, and every file counts.
#[test]
fn a_drop_in_of_cri_o_counts_in_a_subdirectory_too() {
    let crio = |path: &str, config: &str| {
        let host = without_containerd();
        host.write("usr/bin/crio", "");
        let packaged = "[crio.runtime]\ndefault_runtime = \"crun\"\n";
        host.write("etc/crio/crio.conf.d/10-crio.conf", packaged);
        host.write(&format!("etc/crio/crio.conf.d/{path}"), config);
        host
    };
    let dirs = "[crio.runtime]\ncdi_spec_dirs = [\"/etc/cdi\"]\n";
    let file = "/etc/crio/crio.conf.d/50-site/cdi.conf";
    let left_out = ["error", "runtime-spec-dirs", "cri-o", file];
    assert_found(&crio("50-site/cdi.conf", dirs), "", &[left_out]);
    let other = "[crio.runtime]\nlog_level = \"info\"\n";
    assert_found(&crio("old/00.conf", other), "", &[]);
}

/// k0s#4573: what it imports is written at each start.
#[test]
fn on_k0s_the_fix_creates_a_drop_in_and_keeps_the_generated_file() {
    let host = without_containerd();
    host.root_process(800,
        "containerd",
        "/var/lib/k0s/bin/containerd --address=/run/k0s/containerd.sock --config=/etc/k0s/containerd.toml",
    );
    host.write(
        "etc/k0s/containerd.toml",
        "# k0s_managed=true\nversion = 2\nimports = [\"/run/k0s/containerd-cri.toml\"]\n",
    );
    host.write(
        "run/k0s/containerd-cri.toml",
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = false\n",
    );
    let fix = "set enable_cdi = true in [plugins.\"io.containerd.grpc.v1.cri\"] of \
         /etc/k0s/containerd.d/cdi.toml (create it); k0s applies it automatically";
    assert_found(
        &host,
        "",
        &[["error", "runtime-cdi-off", "/etc/k0s/containerd.toml", fix]],
    );
    // An existing drop-in that disables CDI.
    host.write(
        "etc/k0s/containerd.toml",
        "# k0s_managed=true\nversion = 2\nimports = [\"/etc/k0s/containerd.d/*.toml\"]\n",
    );
    host.write(
        "etc/k0s/containerd.d/site.toml",
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = false\n",
    );
    let fix = "of /etc/k0s/containerd.d/site.toml; k0s";
    assert_found(
        &host,
        "",
        &[["error", "runtime-cdi-off", "/etc/k0s/containerd.toml", fix]],
    );
}

/// A NixOS configuration that writes the template whole.
#[test]
fn the_fix_adds_a_version_to_a_template_without_one() {
    let dir = "var/lib/rancher/k3s/agent/etc/containerd";
    let config = "[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = true\n";
    let host = without_containerd();
    for name in ["config.toml", "config.toml.tmpl"] {
        host.write(&format!("{dir}/{name}"), config);
    }
    host.root_process(
        801,
        "containerd",
        &format!("containerd -c /{dir}/config.toml"),
    );
    let fix = format!(
        "write `version = 2` as the first line of /{dir}/config.toml.tmpl, from which k3s generates \
         the configuration, and restart k3s or k3s-agent"
    );
    assert_found(&host, "", &[["info", "runtime-cdi-unknown", dir, &fix]]);
}
