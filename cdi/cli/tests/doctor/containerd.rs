//! Hosts by how their containerd is configured: what is found first, and what to do.
//! Which settings count is tested beside containerd itself (`host-doctor`).

use std::os::unix::fs::symlink;

use super::host::{Host, finding, text};

const OFF_IN_1: &str = "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n";
const OFF_IN_2: &str =
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n";
/// As Docker's package has it (`containerd.io`, /etc/containerd/config.toml).
const OF_DOCKER: &str = "#   Copyright\n\ndisabled_plugins = [\"cri\"]\n";

/// As k3s and RKE2 write it by their template of version 3.
const OF_K3S: &str = "version = 3\nimports = [\"DIR/config-v3.toml.d/*.toml\"]\n\
    [plugins.'io.containerd.cri.v1.runtime']\nenable_selinux = false\n";
/// As they write it for containerd 1.7.
const OF_OLD_K3S: &str =
    "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_selinux = false\n";

const K3S: &str = "var/lib/rancher/k3s/agent/etc/containerd";
const RKE2: &str = "var/lib/rancher/rke2/agent/etc/containerd";

/// A host whose containerd is that of k3s or RKE2.
fn bundled(dir: &str, config: &str) -> Host {
    let host = Host::healthy();
    host.remove("usr/bin/containerd");
    host.remove("etc/containerd");
    host.remove("var/lib/dpkg/status");
    host.write(
        &format!("{dir}/config.toml"),
        config.replace("DIR", &format!("/{dir}")),
    );
    host
}

/// The unit starts at boot.
fn enabled(host: &Host, unit: &str) {
    host.write(&format!("etc/systemd/system/{unit}.service"), "[Unit]\n");
    host.write(
        &format!("etc/systemd/system/multi-user.target.wants/{unit}.service"),
        "",
    );
}

/// Fails unless `id` is found first, with this fix.
fn assert_first(host: &Host, id: &str, fix: &str) {
    let report = host.json("doctor --json", 1);
    let found = report.pointer("/findings/0").unwrap();
    assert_eq!(text(found, "id"), id, "{report:#}");
    assert_eq!(text(found, "fix"), fix);
}

#[test]
fn the_table_and_the_file_to_edit_are_those_that_count() {
    let main = "/etc/containerd/config.toml";
    for (version, config, table) in [
        ("1.7.28", "version = 2\n", "\"io.containerd.grpc.v1.cri\""),
        ("1.7.28", "", "cri"),
        ("1.7.28", OFF_IN_1, "\"io.containerd.grpc.v1.cri\""),
        ("2.1.3", OFF_IN_1, "\"io.containerd.grpc.v1.cri\""),
        ("2.1.3", OFF_IN_2, "\"io.containerd.cri.v1.runtime\""),
    ] {
        let host = Host::healthy();
        host.containerd(version, config);
        let fix = format!(
            "set enable_cdi = true, in [plugins.{table}] of {main}, and restart containerd"
        );
        assert_first(&host, "runtime-cdi-off", &fix);
    }
}

#[test]
fn a_host_without_a_configuration_is_told_how_to_begin_one() {
    let host = Host::healthy();
    host.containerd("1.7.28", "");
    host.remove("etc/containerd");
    let fix = "set enable_cdi = true, in [plugins.\"io.containerd.grpc.v1.cri\"] of \
         /etc/containerd/config.toml (to be made, and to begin with version = 2), and restart containerd";
    assert_first(&host, "runtime-cdi-off", fix);
    host.containerd("2.1.3", "");
    host.remove("etc/containerd");
    host.out("doctor", 0);
}

#[test]
fn a_setting_that_does_not_count_is_told() {
    let says = |host: &Host, expected: &str| {
        let report = host.json("doctor --json", 1);
        let found = finding(&report, "runtime-cdi-off").unwrap();
        let evidence = text(found, "evidence");
        assert!(evidence.contains(expected), "{evidence}");
    };
    let host = Host::healthy();
    host.containerd(
        "1.7.28",
        "version = 2\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n",
    );
    says(
        &host,
        "enable_cdi = true in [plugins.\"io.containerd.cri.v1.runtime\"] of /etc/containerd/config.toml \
         does not count: with this version of the file it reads [plugins.\"io.containerd.grpc.v1.cri\"]",
    );
    // In 1.7 a later file's table replaces the whole table.
    host.containerd(
        "1.7.28",
        "version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n\
         [plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
    );
    host.write(
        "etc/containerd/conf.d/99-nvidia.toml",
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\nsnapshotter = 'overlayfs'\n",
    );
    let replaced =
        "does not count: the table in /etc/containerd/conf.d/99-nvidia.toml replaces that one";
    says(&host, replaced);
    let fix = "set enable_cdi = true, in [plugins.\"io.containerd.grpc.v1.cri\"] of \
         /etc/containerd/conf.d/99-nvidia.toml, and restart containerd";
    assert_first(&host, "runtime-cdi-off", fix);
}

#[test]
fn what_has_no_meaning_to_a_release_is_no_cause() {
    for (version, config) in [
        // The leftover of a migration is not read by 2.0 to 2.2.
        (
            "2.1.3",
            "version = 3\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n",
        ),
        // CDI cannot be turned off.
        ("2.4.2", OFF_IN_2),
        ("2.1.3", "[plugins.cri]\nenable_cdi = false\n"),
    ] {
        let host = Host::healthy();
        host.containerd(version, config);
        host.out("doctor", 0);
    }
}

#[test]
fn where_the_release_is_not_known_what_all_agree_on_counts() {
    for (config, id, code) in [
        (OFF_IN_1, "runtime-cdi-off", 1),
        (OFF_IN_2, "runtime-cdi-off", 1),
        ("version = 2\n", "runtime-cdi-unknown", 0),
    ] {
        let host = Host::healthy();
        host.containerd("2.1.3", config);
        host.remove("var/lib/dpkg/status");
        let ids = host.ids(code);
        assert!(ids.iter().any(|it| it == id), "{ids:?}");
    }
    let host = Host::healthy();
    host.containerd("2.1.3", "version = 3\n");
    host.remove("var/lib/dpkg/status");
    let ids = host.ids(0);
    assert!(
        !ids.iter().any(|it| it.starts_with("runtime-cdi")),
        "{ids:?}"
    );
}

#[test]
fn a_configuration_that_containerd_refuses_is_named() {
    for (version, config, reason) in [
        (
            "1.7.28",
            OFF_IN_2,
            "is of version 3, and this release reads up to 2",
        ),
        (
            "2.1.3",
            "version = 2\ndisabled_plugins = ['cri']\n",
            "names the plugin \"cri\": in version 2 the names are long",
        ),
        (
            "2.1.3",
            "version = 3\nimports = ['/etc/containerd/none.toml']\n",
            "/etc/containerd/none.toml is imported and does not exist",
        ),
    ] {
        let host = Host::healthy();
        host.containerd(version, config);
        let report = host.json("doctor --json", 1);
        let found = report.pointer("/findings/0").unwrap();
        assert_eq!(text(found, "id"), "runtime-config-refused", "{report:#}");
        assert!(text(found, "evidence").contains(reason), "{report:#}");
    }
}

// === without CRI ===

#[test]
fn without_cri_kubelet_has_no_runtime_and_the_line_is_named() {
    for version in ["1.7.28", "2.1.3"] {
        let host = Host::healthy();
        host.containerd(version, OF_DOCKER);
        let fix = "remove \"cri\" from disabled_plugins in line 3 of /etc/containerd/config.toml, \
             and restart containerd";
        assert_first(&host, "runtime-cri-disabled", fix);
    }
    let host = Host::healthy();
    host.containerd("2.1.3", "version = 3\nimports = ['conf.d/*.toml']\n");
    host.write(
        "etc/containerd/conf.d/docker.toml",
        "disabled_plugins = ['io.containerd.grpc.v1.cri']\n",
    );
    let fix = "remove \"io.containerd.grpc.v1.cri\" from disabled_plugins in line 1 of \
         /etc/containerd/conf.d/docker.toml, and restart containerd";
    assert_first(&host, "runtime-cri-disabled", fix);
}

#[test]
fn without_cri_nothing_is_wrong_where_kubelet_has_another_runtime_or_is_not_there() {
    let with = |change: fn(&Host)| {
        let host = Host::healthy();
        host.containerd("2.1.3", OF_DOCKER);
        change(&host);
        let ids = host.ids(0);
        assert!(
            !ids.iter().any(|it| it == "runtime-cri-disabled"),
            "{ids:?}"
        );
    };
    with(|host| host.write("usr/bin/crio", ""));
    with(|host| host.write("usr/bin/cri-dockerd", ""));
    with(|host| host.write(&format!("{K3S}/config.toml"), "version = 3\n"));
    // A workstation with Docker.
    let host = Host::healthy();
    host.containerd("2.1.3", OF_DOCKER);
    host.remove("var/lib/kubelet");
    let ids = host.ids(1);
    assert!(!ids.iter().any(|it| it.starts_with("runtime-")), "{ids:?}");
}

// === k3s and RKE2 ===

#[test]
fn what_k3s_and_rke2_write_themselves_is_healthy() {
    for dir in [K3S, RKE2] {
        bundled(dir, OF_K3S).out("doctor", 0);
    }
}

#[test]
fn the_template_of_k3s_is_to_be_edited_and_k3s_to_be_restarted() {
    for (dir, unit, of) in [
        (K3S, "k3s", "k3s"),
        (K3S, "k3s-agent", "k3s"),
        (RKE2, "rke2-server", "rke2"),
        (RKE2, "rke2-agent", "rke2"),
    ] {
        let host = bundled(dir, &format!("{OF_OLD_K3S}enable_cdi = false\n"));
        enabled(&host, unit);
        let table = "[plugins.\"io.containerd.grpc.v1.cri\"]";
        let fix = format!(
            "set enable_cdi = true, in {table} of /{dir}/config.toml.tmpl (to be made from {of}'s default \
             template, which has the table), and restart {unit}"
        );
        assert_first(&host, "runtime-cdi-off", &fix);
        host.write(&format!("{dir}/config.toml.tmpl"), OF_OLD_K3S);
        let fix = format!(
            "set enable_cdi = true, in {table} of /{dir}/config.toml.tmpl, from which {of} makes the \
             configuration, and restart {unit}"
        );
        assert_first(&host, "runtime-cdi-off", &fix);
    }
}

#[test]
fn with_containerd_2_a_drop_in_is_simpler_than_a_template() {
    let host = bundled(K3S, &format!("{OF_K3S}cdi_spec_dirs = ['/opt/cdi']\n"));
    let table = "[plugins.\"io.containerd.cri.v1.runtime\"]";
    // Both units are there, and neither starts at boot.
    for unit in ["k3s", "k3s-agent"] {
        host.write(&format!("etc/systemd/system/{unit}.service"), "[Unit]\n");
    }
    let fix = format!(
        "set cdi_spec_dirs to include /etc/cdi and /var/run/cdi, or remove the setting, in {table} of \
         /{K3S}/config-v3.toml.d/cdi.toml (to be made if it is not there), and restart k3s or k3s-agent"
    );
    assert_first(&host, "runtime-spec-dirs", &fix);
    // Before drop-ins there was only the template of version 3.
    let host = bundled(K3S, OFF_IN_2);
    enabled(&host, "k3s");
    host.write(&format!("{K3S}/config-v3.toml.tmpl"), OFF_IN_2);
    let fix = format!(
        "set enable_cdi = true, in {table} of /{K3S}/config-v3.toml.tmpl, from which k3s makes the \
         configuration, and restart k3s"
    );
    assert_first(&host, "runtime-cdi-off", &fix);
    // A drop-in that turns it off is edited itself.
    let host = bundled(K3S, OF_K3S);
    enabled(&host, "k3s");
    host.write(&format!("{K3S}/config-v3.toml.d/50-off.toml"), OFF_IN_2);
    let fix = format!(
        "set enable_cdi = true, in {table} of /{K3S}/config-v3.toml.d/50-off.toml, and restart k3s"
    );
    assert_first(&host, "runtime-cdi-off", &fix);
}

#[test]
fn another_data_directory_is_known_by_the_process() {
    let host = bundled(K3S, OF_K3S);
    host.remove(K3S);
    let dir = "srv/rke2/agent/etc/containerd";
    host.write("proc/800/status", "Name:\tcontainerd\nUid:\t0\t0\t0\t0\n");
    host.write(
        "proc/800/cmdline",
        format!("containerd\0-c\0/{dir}/config.toml\0"),
    );
    host.remove("proc/800/root");
    symlink("../..", host.at("proc/800/root")).unwrap();
    host.write(&format!("{dir}/config.toml"), OFF_IN_2);
    enabled(&host, "rke2-agent");
    let fix = format!(
        "set enable_cdi = true, in [plugins.\"io.containerd.cri.v1.runtime\"] of \
         /{dir}/config-v3.toml.tmpl (to be made from rke2's default template, which has the table), \
         and restart rke2-agent"
    );
    assert_first(&host, "runtime-cdi-off", &fix);
}
