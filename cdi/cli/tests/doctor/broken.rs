//! Hosts with one fault: it is reported first, before its consequences.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::channel_nodes::mknod;
use super::host::{
    CLAIM, Host, KUBELET, LIBRARY, PLUGIN, SPEC, finding, kubelet, library, spec, text,
};

/// Fails unless `doctor` names `id` first on a healthy host that was broken so.
fn first(id: &str, break_it: impl FnOnce(&Host)) {
    let host = Host::healthy();
    break_it(&host);
    let ids = host.ids(1);
    assert_eq!(ids.first().map(String::as_str), Some(id), "{ids:?}");
}

/// Like `first`; also checks the evidence of that finding.
fn first_says(id: &str, evidence: &str, break_it: impl FnOnce(&Host)) {
    let host = Host::healthy();
    break_it(&host);
    let report = host.json("doctor --json", 1);
    let found = report.pointer("/findings/0").unwrap();
    assert_eq!(found.get("id").unwrap(), id, "{report:#}");
    let printed = found.get("evidence").and_then(|it| it.as_str()).unwrap();
    assert!(printed.contains(evidence), "{printed}");
}

// === driver ===

#[test]
fn without_a_library_there_is_no_driver() {
    first("nvml-missing", |host| host.remove("usr/lib64"));
}

#[test]
fn a_directory_in_the_librarys_place_is_named() {
    let evidence = "/usr/lib64/libnvidia-ml.so.1 is not a regular file";
    first_says("nvml-missing", evidence, |host| {
        host.remove("usr/lib64/libnvidia-ml.so.1");
        fs::create_dir(host.at("usr/lib64/libnvidia-ml.so.1")).unwrap();
    });
}

#[test]
fn a_library_of_another_architecture_is_named() {
    first_says("nvml-unloadable", "is for another architecture", |host| {
        let mut foreign = library();
        foreign.splice(18..19, [21]);
        host.write(LIBRARY, foreign);
    });
}

#[test]
fn a_driver_containers_library_is_found_and_its_module_missed() {
    let evidence = "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1 exists";
    first_says("nvidia-module-not-loaded", evidence, |host| {
        host.remove("usr/lib64");
        host.write("run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", library());
        host.remove("proc/driver");
        host.write("proc/devices", "Character devices:\n  1 mem\n");
    });
}

#[test]
fn a_library_of_another_driver_than_the_module_is_named() {
    let evidence = "the library has version 580.82.07, but the kernel module has 570.86.15";
    first_says("driver-version-mismatch", evidence, |host| {
        host.write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23\n",
        );
    });
}

// === gpus ===

#[test]
fn a_gpu_of_another_driver_is_named() {
    let evidence = "the driver nouveau is bound to this GPU";
    first_says("gpu-other-driver", evidence, |host| {
        host.gpu(Some("nouveau"));
    });
}

// req: DOCTOR-5
#[test]
fn an_unreadable_version_of_the_module_is_named_by_the_hosts_path() {
    let evidence = "/proc/driver/nvidia/version cannot be read: ";
    let host = Host::healthy();
    host.remove("proc/driver/nvidia/version");
    fs::create_dir(host.at("proc/driver/nvidia/version")).unwrap();
    let report = host.json("doctor --json", 1);
    let found = finding(&report, "driver-unreadable").unwrap();
    assert!(text(found, "evidence").starts_with(evidence), "{report:#}");
    let ids = host.ids(1);
    assert!(
        !ids.contains(&"nvidia-module-not-loaded".to_owned()),
        "{ids:?}"
    );
}

// === channels ===

#[test]
fn disabled_channels_are_the_cause_of_a_missing_major() {
    first("imex-channels-disabled", |host| {
        host.write("proc/driver/nvidia/params", "ImexChannelCount: 0\n");
        host.write("proc/devices", "Character devices:\n234 nvidia-caps\n");
    });
}

#[test]
fn a_missing_major_is_named() {
    first("imex-channel-major-missing", |host| {
        host.write("proc/devices", "Character devices:\n234 nvidia-caps\n");
    });
}

#[test]
fn a_node_that_is_no_channel_is_named() {
    first_says(
        "imex-node-wrong",
        "this path is not a device node",
        |host| {
            host.write("dev/nvidia-caps-imex-channels/channel0", "");
        },
    );
}

#[test]
fn a_driver_without_the_capability_that_nvidia_imex_needs_is_named() {
    first("driver-too-old", |host| {
        host.remove("proc/driver/nvidia/capabilities/fabric-imex-mgmt");
    });
}

#[test]
fn a_driver_that_forbids_creating_nodes_is_named() {
    first("modify-device-files-off", |host| {
        host.write(
            "proc/driver/nvidia/params",
            "ModifyDeviceFiles: 0\nImexChannelCount: 2048\n",
        );
    });
}

// === the host's nvidia-imex ===

#[test]
fn a_daemon_that_does_not_run_is_named() {
    // Findings about its needs come first.
    first("imex-capability-node-missing", |host| {
        host.remove("proc/700");
    });
    let host = Host::healthy();
    if mknod(&host, "c", 234, 4323) {
        host.remove("proc/700");
        assert_eq!(host.ids(1).first().unwrap(), "host-imex-not-running");
    }
}

#[test]
fn a_daemon_without_nodes_is_named() {
    first("host-imex-no-nodes", |host| {
        host.write("etc/nvidia-imex/nodes_config.cfg", "# none\n\n");
    });
    // This is also why it does not run.
    first("host-imex-no-nodes", |host| {
        host.remove("etc/nvidia-imex/nodes_config.cfg");
        host.remove("proc/700");
    });
}

#[test]
fn a_missing_daemon_is_named() {
    let host = Host::healthy();
    host.remove("proc/700");
    host.remove("usr/lib/systemd/system/nvidia-imex.service");
    // From another root the fabric is not known, and so neither is the need.
    let printed = host.out("doctor", 0);
    assert!(
        printed.contains("because NVML was not queried"),
        "{printed}"
    );
}

#[test]
fn a_socket_that_cannot_be_queried_is_named() {
    let host = Host::healthy();
    let report = host.json("doctor --json --imex-socket /run/imex.sock", 1);
    let found = report.pointer("/findings/0").unwrap();
    assert_eq!(found.get("subject").unwrap(), "/run/imex.sock");
    let printed = found.get("evidence").and_then(|it| it.as_str()).unwrap();
    assert!(printed.contains("no nvidia-imex-ctl"), "{printed}");
}

// === CDI directories ===

#[test]
fn a_linked_directory_is_the_cause_of_missing_specs() {
    first("cdi-directory-link", |host| {
        fs::rename(host.at("run/cdi"), host.at("run/cdi.real")).unwrap();
        symlink("cdi.real", host.at("run/cdi")).unwrap();
    });
}

#[test]
fn names_and_modes_that_mislead_are_named() {
    first("cdi-spec-extension", |host| host.write("etc/cdi/a.yml", ""));
    first("cdi-leftover", |host| host.write("run/cdi/a.tmp", ""));
    let hidden = spec("0.5.0", 235).replace(CLAIM, "hidden");
    first("cdi-spec-hidden", |host| {
        host.write("etc/cdi/.a.json", &hidden);
    });
    let mode = |host: &Host, path: &str, mode| {
        fs::set_permissions(host.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    first("cdi-directory-mode", |host| mode(host, "run/cdi", 0o700));
    first("cdi-directory-mode", |host| mode(host, "etc/cdi", 0o777));
    first("cdi-spec-mode", |host| mode(host, SPEC, 0o666));
}

// === runtimes ===

#[test]
fn a_spec_that_is_too_new_for_the_runtime_is_named() {
    let evidence = "this file declares cdiVersion 1.0.0, but containerd 1.7.28 loads at most 0.8.0";
    first_says("cdi-spec-too-new", evidence, |host| {
        host.containerd(
            "1.7.28",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
        );
        host.write(SPEC, spec("1.0.0", 235));
    });
}

#[test]
fn limits_on_watching_are_named() {
    first("inotify-limit-low", |host| {
        host.write("proc/sys/fs/inotify/max_user_watches", "100\n");
    });
    first("inotify-instances-exhausted", |host| {
        host.write("proc/sys/fs/inotify/max_user_instances", "10\n");
        fs::create_dir(host.at("proc/800/fd")).unwrap();
        for fd in 0..9 {
            let link = host.at(&format!("proc/800/fd/{fd}"));
            symlink("anon_inode:inotify", link).unwrap();
        }
    });
}

// === specs ===

#[test]
fn a_spec_with_the_major_of_an_earlier_load_of_the_driver_is_named() {
    first("cdi-spec-stale-major", |host| {
        host.write(
            "proc/devices",
            "Character devices:\n234 nvidia-caps\n240 nvidia-caps-imex-channels\n",
        );
    });
}

#[test]
fn two_files_that_define_one_device_are_named() {
    first("cdi-device-conflict", |host| {
        host.write("run/cdi/copy.json", spec("0.5.0", 235));
    });
}

#[test]
fn an_invalid_spec_is_named() {
    first("cdi-spec-malformed", |host| {
        host.write("etc/cdi/bad.json", "{");
    });
}

// === claims ===

#[test]
fn a_prepared_claim_without_its_spec_is_named() {
    first("claim-without-spec", |host| host.remove(SPEC));
}

#[test]
fn a_spec_without_a_claim_is_named() {
    first("spec-without-claim", |host| {
        let other = "22222222-aaaa-4bbb-8ccc-000000000002";
        host.write(
            &SPEC.replace(CLAIM, other),
            spec("0.5.0", 235).replace(CLAIM, other),
        );
    });
}

#[test]
fn specs_without_a_checkpoint_are_named() {
    first("checkpoint-absent", |host| {
        host.remove(&format!("{PLUGIN}/checkpoint.json"));
        host.remove(KUBELET);
    });
}

#[test]
fn a_claim_that_only_kubelet_remembers_is_named() {
    first("claim-unknown-to-plugin", |host| {
        let empty = Host::fixture("01-empty.json");
        host.write(&format!("{PLUGIN}/checkpoint.json"), empty);
    });
    first_says("claim-unknown-to-plugin", "does not exist", |host| {
        host.remove(&format!("{PLUGIN}/checkpoint.json"));
    });
}

#[test]
fn a_claim_that_only_the_plugin_remembers_is_named() {
    first("claim-unknown-to-kubelet", |host| {
        host.write(KUBELET, kubelet(&[]));
    });
}

#[test]
fn a_damaged_checkpoint_is_the_cause_of_unknown_claims() {
    first("checkpoint-damaged", |host| {
        let whole = Host::fixture("02-channel-completed.json");
        let bad = whole.replace("default", "defaulT");
        assert_ne!(bad, whole);
        host.write(&format!("{PLUGIN}/checkpoint.json"), bad);
    });
    first("kubelet-state-damaged", |host| {
        host.write(KUBELET, kubelet(&[CLAIM]).replace("node-a", "node-b"));
    });
    first("kubelet-state-unknown", |host| {
        host.write(KUBELET, r#"{"version":"v1","entries":[],"checksum":1}"#);
    });
    first("kubelet-state-unknown", |host| {
        let data = r#"{"apiVersion":"checkpoint.dra.kubelet.k8s.io/v2"}"#;
        let checksum = crc32fast::hash(data.as_bytes());
        let state = serde_json::json!({"Data": data, "Checksum": checksum});
        host.write(KUBELET, state.to_string());
    });
    first("checkpoint-set-aside", |host| {
        host.write(&format!("{PLUGIN}/checkpoint.json.damaged-empty"), "");
    });
}

#[test]
fn no_fix_deletes_pods_of_claims_that_the_plugin_recovers() {
    let host = Host::healthy();
    let checkpoint = format!("{PLUGIN}/checkpoint.json");
    let aside = format!("{checkpoint}.damaged-not-json");
    fs::rename(host.at(&checkpoint), host.at(&aside)).unwrap();
    let text = host.out("doctor", 1);
    assert!(text.contains("[checkpoint-set-aside]"), "{text}");
    assert!(!text.contains("delete"), "{text}");
}

#[test]
fn running_as_root_is_no_fix_for_a_directory_in_place_of_a_file() {
    let host = Host::healthy();
    for path in [format!("{PLUGIN}/checkpoint.json"), KUBELET.to_owned()] {
        host.remove(&path);
        fs::create_dir(host.at(&path)).unwrap();
    }
    let text = host.out("doctor", 1);
    for id in ["[checkpoint-unreadable]", "[kubelet-state-unreadable]"] {
        assert!(text.contains(id), "{text}");
    }
    assert!(!text.contains("as root"), "{text}");
}

#[test]
fn a_plugin_that_does_not_run_is_named() {
    first("plugin-not-registered", |host| {
        host.remove("var/lib/kubelet/plugins_registry");
    });
}

#[test]
fn a_plugin_that_has_not_run_since_the_boot_is_named() {
    first("checkpoint-of-earlier-boot", |host| {
        host.write(
            "proc/sys/kernel/random/boot_id",
            "00000000-0000-4000-8000-000000000000\n",
        );
    });
}

#[test]
fn a_non_file_at_the_shared_device_marker_is_named() {
    first_says("device-marker-unusable", "not a regular file", |host| {
        fs::create_dir(host.at(&format!("{PLUGIN}/device-is-shared"))).unwrap();
    });
}

// === what goes around claims ===

#[test]
fn channels_by_environment_variable_are_named() {
    first("imex-channels-env-bypass", |host| {
        host.write("etc/nvidia-container-runtime/config.toml", "[features]\n");
    });
}

#[test]
fn an_unreadable_toolkit_configuration_is_not_reported_as_a_missing_setting() {
    let text = "[features]\nignore-imex-channel-requests = tru\n";
    first("toolkit-config-unreadable", |host| {
        host.write("etc/nvidia-container-runtime/config.toml", text);
    });
    first("toolkit-config-unreadable", |host| {
        host.remove("etc/nvidia-container-runtime/config.toml");
        fs::create_dir(host.at("etc/nvidia-container-runtime/config.toml")).unwrap();
    });
}

#[test]
fn an_old_systemd_is_named() {
    first("systemd-drops-devices", |host| {
        host.remove("usr/lib/systemd/libsystemd-shared-252.so");
        host.write("usr/lib/systemd/libsystemd-shared-239-78.el8.so", "");
    });
}
