//! The hook of OCI runtimes: which containers it refuses, and how it ends.

use std::io::Write;
use std::process::{ChildStdin, Output, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::prepared::{Prepared, write_checkpoint};
use super::{Place, stderr};

const UID: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
const POD: &str = "99999999-aaaa-4bbb-8ccc-000000000009";
const KUBELET: &str = "host/var/lib/kubelet";
const HOOK: &str = "hook createRuntime --root host";

/// The config of a container that has channel 5, and these annotations.
fn with_channel(annotations: &Value) -> Value {
    json!({
        "ociVersion": "1.2.0",
        "annotations": annotations,
        "process": {"env": ["PATH=/bin"]},
        "linux": {
            "devices": [{"path": "/dev/nvidia-caps-imex-channels/channel5", "type": "c", "major": 235, "minor": 5}],
            "resources": {"devices": [
                {"allow": false, "access": "rwm"},
                {"allow": true, "type": "c", "major": 235, "minor": 5, "access": "rw"},
            ]},
        },
    })
}

fn containerd(pod: &str, namespace: &str) -> Value {
    json!({"io.kubernetes.cri.sandbox-uid": pod, "io.kubernetes.cri.sandbox-namespace": namespace})
}

fn crio(pod: &str, namespace: &str) -> Value {
    json!({"io.kubernetes.pod.uid": pod, "io.kubernetes.pod.namespace": namespace})
}

/// A host where a claim of [`POD`] has channel 5, and a container's `config`.
fn place(config: &Value) -> Place {
    let place = Place::new();
    let mut claim = Prepared::new(UID, "a-domain", 5);
    claim.pods = vec![POD.to_owned()];
    let plugin = format!("{KUBELET}/plugins/compute-domain.nvidia.com");
    write_checkpoint(&place.at(&plugin), "a-boot", &[claim]);
    place.write("bundle/config.json", &config.to_string());
    place
}

/// Runs the hook with `input` on its standard input, all of which it must read.
fn hook(place: &Place, words: &str, input: &[u8]) -> Output {
    let mut command = place.command(words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin: ChildStdin = child.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty(), "{words}");
    output
}

/// The hook's exit code, and its line on stderr.
fn judge(place: &Place, words: &str) -> (Option<i32>, String) {
    let state = place.read("state.json");
    let output = hook(place, words, state.as_bytes());
    (output.status.code(), stderr(&output))
}

#[test]
fn a_pods_container_has_the_channels_of_the_pods_claims() {
    for annotations in [containerd(POD, "default"), crio(POD, "default")] {
        let (code, message) = judge(&place(&with_channel(&annotations)), HOOK);
        assert_eq!((code, message.as_str()), (Some(0), ""));
    }
}

// req: DOCTOR-11
#[test]
fn a_pod_without_the_claim_is_refused_with_a_reason() {
    for annotations in [containerd("other", "default"), crio("other", "default")] {
        let place = place(&with_channel(&annotations));
        state_of_kubelet(&place, &[POD]);
        let (code, message) = judge(&place, HOOK);
        assert_eq!(code, Some(1));
        assert_eq!(
            message,
            "cdi-gen: the container asks for IMEX channel 5 (device /dev/nvidia-caps-imex-channels/channel5), \
             IMEX channel 5 (device cgroup), but its pod has no prepared ResourceClaim with that channel \
             (claim worker-11111111-aaaa-4bbb-8ccc-000000000001 has the channel, but belongs to other pods); remove the request, \
             and give the pod a claim of its ComputeDomain's resourceClaimTemplate\n"
        );
    }
}

#[test]
fn a_pod_that_shares_a_prepared_claim_is_known_from_kubelets_state() {
    let place = place(&with_channel(&containerd("later", "default")));
    state_of_kubelet(&place, &[POD, "later"]);
    assert_eq!(judge(&place, HOOK).0, Some(0));
    // Without that state, a claim of the pod's namespace suffices, and no other.
    std::fs::remove_file(place.at(&format!("{KUBELET}/dra_manager_state"))).unwrap();
    assert_eq!(judge(&place, HOOK).0, Some(0));
    place.write(
        "bundle/config.json",
        &with_channel(&containerd("later", "other")).to_string(),
    );
    assert_eq!(judge(&place, HOOK).0, Some(1));
}

#[test]
fn without_proc_devices_a_container_with_devices_is_refused_with_the_reason() {
    let config = |devices: Value| json!({"ociVersion": "1.2.0", "process": {"env": []}, "linux": {"devices": devices}});
    let by_number = json!([{"path": "/dev/x", "type": "c", "major": 235, "minor": 5}]);
    let place = place(&config(by_number));
    assert_eq!(judge(&place, HOOK).0, Some(1));
    std::fs::remove_file(place.at("host/proc/devices")).unwrap();
    let (code, message) = judge(&place, HOOK);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("/proc/devices"), "{message}");
    // A container without devices needs no major.
    place.write("bundle/config.json", &config(json!([])).to_string());
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

#[test]
fn allow_applies_to_containers_outside_pods() {
    let place = place(&with_channel(&json!({})));
    for (allow, code) in [
        ("", 1),
        (" --allow 0-4", 1),
        (" --allow 5", 0),
        (" --allow all", 0),
    ] {
        let (ended, message) = judge(&place, &format!("{HOOK}{allow}"));
        assert_eq!(ended, Some(code), "{allow}: {message}");
        assert_eq!(message.contains("--allow"), code == 1, "{message}");
    }
    place.write(
        "bundle/config.json",
        &with_channel(&containerd("other", "other")).to_string(),
    );
    assert_eq!(judge(&place, &format!("{HOOK} --allow all")).0, Some(1));
}

#[test]
fn a_warning_lets_the_container_start() {
    let place = place(&with_channel(&json!({})));
    let (code, message) = judge(&place, &format!("{HOOK} --warn"));
    assert_eq!(code, Some(0));
    assert!(message.contains("asks for IMEX channel 5"), "{message}");
    place.write("bundle/config.json", "{");
    let (code, message) = judge(&place, &format!("{HOOK} --warn"));
    assert_eq!(code, Some(0));
    assert!(
        message.contains("bundle/config.json is not JSON"),
        "{message}"
    );
}

// req: DOCTOR-11
#[test]
fn a_container_without_requests_starts_even_on_a_broken_node() {
    let place = place(
        &json!({"process": null, "linux": {"devices": null}, "annotations": containerd(POD, "x")}),
    );
    place.write(
        &format!("{KUBELET}/plugins/compute-domain.nvidia.com/checkpoint.json"),
        "{",
    );
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

#[test]
fn a_damaged_checkpoint_proves_no_ownership_and_is_reported() {
    let place = place(&with_channel(&containerd(POD, "default")));
    place.write(
        &format!("{KUBELET}/plugins/compute-domain.nvidia.com/checkpoint.json"),
        "{",
    );
    let (code, message) = judge(&place, HOOK);
    assert_eq!(code, Some(3));
    assert!(message.contains("checkpoint is damaged"), "{message}");
}

#[test]
fn claims_of_an_earlier_boot_are_not_prepared() {
    let place = place(&with_channel(&containerd(POD, "default")));
    std::fs::create_dir_all(place.at("host/proc/sys/kernel/random")).unwrap();
    for (boot, code) in [("a-boot\n", 0), ("another\n", 1)] {
        place.write("host/proc/sys/kernel/random/boot_id", boot);
        assert_eq!(judge(&place, HOOK).0, Some(code), "{boot}");
    }
}

#[test]
fn names_of_cdi_devices_are_resolved_on_the_host() {
    let lamp = |device| json!({"process": {"env": [format!("NVIDIA_VISIBLE_DEVICES={device}")]}});
    let place = place(&lamp("nvidia.com/imex-channel=0"));
    let (code, message) = judge(&place, HOOK);
    assert_eq!(code, Some(1));
    assert!(
        message.contains("IMEX channel 0 (environment variable"),
        "{message}"
    );
    place.write(
        "bundle/config.json",
        &lamp("example.com/lamp=floor").to_string(),
    );
    assert_eq!(judge(&place, HOOK).0, Some(0));
}

/// A config of a pod's container that names this CDI device, without its edits yet.
fn naming(device: &str) -> Value {
    json!({
        "annotations": containerd("other", "gpu-operator"),
        "process": {"env": [format!("NVIDIA_VISIBLE_DEVICES={device}")]},
    })
}

/// A spec with the device `all` that has channel 5, which its path does not show.
const FABRIC: &str = r#"{"cdiVersion": "0.5.0", "kind": "example.com/fabric", "devices": [
    {"name": "all", "containerEdits": {"deviceNodes": [
        {"path": "/dev/x", "type": "c", "major": 235, "minor": 5}]}}]}"#;

// req: DOCTOR-11
#[test]
fn every_spec_that_defines_a_name_counts_whichever_wins() {
    let place = place(&naming("example.com/fabric=all"));
    place.write("host/etc/cdi/fabric.json", FABRIC);
    let (code, message) = judge(&place, HOOK);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("IMEX channel 5 ("), "{message}");
    // Harmless, with higher priority: it wins in the usual order.
    std::fs::create_dir_all(place.at("host/var/run/cdi")).unwrap();
    let harmless = FABRIC.replace("235", "1");
    place.write("host/var/run/cdi/fabric.json", &harmless);
    assert_eq!(judge(&place, HOOK), (Some(1), message));
    std::fs::remove_file(place.at("host/etc/cdi/fabric.json")).unwrap();
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

// req: DOCTOR-11
#[test]
fn a_spec_that_only_a_runtime_can_read_may_define_the_name() {
    let place = place(&naming("nobodys.com/a=b"));
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
    place.write("host/etc/cdi/odd.json", &FABRIC.replace("0.5.0", "9.0.0"));
    let (code, message) = judge(&place, HOOK);
    assert_eq!(code, Some(3));
    assert!(
        message.contains("cannot determine which IMEX channels") && message.contains("odd.json"),
        "{message}"
    );
    let (code, warned) = judge(&place, &format!("{HOOK} --warn"));
    assert_eq!((code, warned), (Some(0), message));
    // A container that names no such device starts.
    place.write(
        "bundle/config.json",
        &with_channel(&containerd(POD, "default")).to_string(),
    );
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

// req: DOCTOR-11, NRI-21
#[test]
fn a_spec_that_readers_read_differently_makes_the_names_of_its_kind_unknown() {
    let place = place(&naming("example.com/fabric=0x10"));
    place.write("host/etc/cdi/odd.yaml", &FABRIC.replace("\"all\"", "0x10"));
    let (code, message) = judge(&place, HOOK);
    assert_eq!(code, Some(3));
    assert!(
        message.contains(
            "odd.yaml is not valid: devices[0].name: `0x10` is not a text to all YAML readers: put the value in quotes (line 2, column 14)"
        ),
        "{message}"
    );
    place.write("bundle/config.json", &naming("nobodys.com/a=b").to_string());
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

#[test]
fn pods_of_an_exempt_namespace_are_not_checked() {
    let place = place(&naming("management.nvidia.com/gpu=all"));
    assert_eq!(judge(&place, HOOK).0, Some(1));
    let exempt = format!("{HOOK} --exempt-namespace other --exempt-namespace gpu-operator");
    assert_eq!(judge(&place, &exempt), (Some(0), String::new()));
    // A container outside pods has no namespace.
    place.write("bundle/config.json", &with_channel(&json!({})).to_string());
    assert_eq!(judge(&place, &exempt).0, Some(1));
    let (code, _) = judge(&place, &format!("{HOOK} --exempt-namespace x"));
    assert_eq!(code, Some(1));
}

#[test]
fn standard_input_is_read_to_its_end_even_if_it_is_invalid() {
    let place = place(&with_channel(&json!({})));
    // More than a pipe holds: the write would fail if the hook had exited.
    let endless = vec![b'{'; 20 << 20];
    for (input, message) in [
        (&endless[..], "too long for a container state"),
        (b"{}", "is not a container state"),
        (b"", "is not a container state"),
        (
            br#"{"bundle": "nowhere"}"#,
            "cannot read nowhere/config.json",
        ),
    ] {
        let output = hook(&place, HOOK, input);
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
}

#[test]
fn the_hook_gives_up_after_its_timeout() {
    let place = place(&with_channel(&json!({})));
    let mut command = place.command(&format!("{HOOK} --timeout 1"));
    let started = Instant::now();
    // No process writes to this pipe or closes it.
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed().as_secs() < 30);
    drop(stdin);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("took longer than 1 s"),
        "{}",
        stderr(&output)
    );
}

/// kubelet's own checkpoint, where these pods have the claim.
fn state_of_kubelet(place: &Place, pods: &[&str]) {
    let pods: Value = pods
        .iter()
        .map(|pod| ((*pod).to_owned(), json!({})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let claim = json!({
        "ClaimUID": UID, "ClaimName": "c", "Namespace": "default", "PodUIDs": pods,
        "DriverState": {"compute-domain.nvidia.com": {"Devices": [{"DeviceName": "channel-0"}]}},
    });
    let data = json!({"ClaimInfoStateList": [claim]}).to_string();
    let checksum = crc32fast::hash(data.as_bytes());
    let state = json!({"Data": data, "Checksum": checksum});
    place.write(&format!("{KUBELET}/dra_manager_state"), &state.to_string());
}
