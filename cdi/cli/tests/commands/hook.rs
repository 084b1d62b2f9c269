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

/// A host where a claim of [`POD`] has channel 5, whose config is `config`.
fn place(config: &Value) -> Place {
    let place = Place::new();
    let mut claim = Prepared::new(UID, "a-domain", 5);
    claim.pods = vec![POD.to_owned()];
    let plugin = format!("{KUBELET}/plugins/compute-domain.nvidia.com");
    write_checkpoint(&place.at(&plugin), "a-boot", &[claim]);
    place.write("bundle/config.json", &config.to_string());
    place
}

/// What the hook says with `input` on its standard input. It has read all of it.
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

/// How it ends, and its line on stderr.
fn judge(place: &Place, words: &str) -> (Option<i32>, String) {
    let state = place.read("state.json");
    let output = hook(place, words, state.as_bytes());
    (output.status.code(), stderr(&output))
}

#[test]
fn a_pods_container_has_the_channels_of_the_pods_claims() {
    for annotations in [containerd(POD, "default"), crio(POD, "default")] {
        let (code, said) = judge(&place(&with_channel(&annotations)), HOOK);
        assert_eq!((code, said.as_str()), (Some(0), ""));
    }
}

// req: DOCTOR-11
#[test]
fn a_pod_without_the_claim_is_refused_with_a_sentence() {
    for annotations in [containerd("other", "default"), crio("other", "default")] {
        let place = place(&with_channel(&annotations));
        state_of_kubelet(&place, &[POD]);
        let (code, said) = judge(&place, HOOK);
        assert_eq!(code, Some(1));
        assert_eq!(
            said,
            "cdi-gen: the container asks for IMEX channel 5 (device /dev/nvidia-caps-imex-channels/channel5), \
             IMEX channel 5 (device cgroup), and its pod has no prepared ResourceClaim with that channel \
             (claim worker-11111111-aaaa-4bbb-8ccc-000000000001 has it, for other pods); remove the request, \
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
fn a_host_without_its_majors_knows_no_channel_by_its_number_and_says_so() {
    let config = |devices: Value| json!({"ociVersion": "1.2.0", "process": {"env": []}, "linux": {"devices": devices}});
    let by_number = json!([{"path": "/dev/x", "type": "c", "major": 235, "minor": 5}]);
    let place = place(&config(by_number));
    assert_eq!(judge(&place, HOOK).0, Some(1));
    std::fs::remove_file(place.at("host/proc/devices")).unwrap();
    let (code, said) = judge(&place, HOOK);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("/proc/devices"), "{said}");
    // Who has no device at all needs no major.
    place.write("bundle/config.json", &config(json!([])).to_string());
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

#[test]
fn allow_is_for_containers_that_are_of_no_pod() {
    let place = place(&with_channel(&json!({})));
    for (allow, code) in [
        ("", 1),
        (" --allow 0-4", 1),
        (" --allow 5", 0),
        (" --allow all", 0),
    ] {
        let (ended, said) = judge(&place, &format!("{HOOK}{allow}"));
        assert_eq!(ended, Some(code), "{allow}: {said}");
        assert_eq!(said.contains("--allow"), code == 1, "{said}");
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
    let (code, said) = judge(&place, &format!("{HOOK} --warn"));
    assert_eq!(code, Some(0));
    assert!(said.contains("asks for IMEX channel 5"), "{said}");
    place.write("bundle/config.json", "{");
    let (code, said) = judge(&place, &format!("{HOOK} --warn"));
    assert_eq!(code, Some(0));
    assert!(said.contains("bundle/config.json is not JSON"), "{said}");
}

// req: DOCTOR-11
#[test]
fn a_container_that_asks_for_nothing_starts_whatever_is_wrong_with_the_node() {
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
fn a_damaged_checkpoint_explains_nothing_and_is_told() {
    let place = place(&with_channel(&containerd(POD, "default")));
    place.write(
        &format!("{KUBELET}/plugins/compute-domain.nvidia.com/checkpoint.json"),
        "{",
    );
    let (code, said) = judge(&place, HOOK);
    assert_eq!(code, Some(3));
    assert!(said.contains("checkpoint is damaged"), "{said}");
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
    let (code, said) = judge(&place, HOOK);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("IMEX channel 0 (environment variable"),
        "{said}"
    );
    place.write(
        "bundle/config.json",
        &lamp("example.com/lamp=floor").to_string(),
    );
    assert_eq!(judge(&place, HOOK).0, Some(0));
}

/// A config of a pod's container that names this CDI device, and has none of it yet.
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
    let (code, said) = judge(&place, HOOK);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("IMEX channel 5 ("), "{said}");
    // Of higher priority, and harmless: the one that wins in the usual order.
    std::fs::create_dir_all(place.at("host/var/run/cdi")).unwrap();
    let harmless = FABRIC.replace("235", "1");
    place.write("host/var/run/cdi/fabric.json", &harmless);
    assert_eq!(judge(&place, HOOK), (Some(1), said));
    std::fs::remove_file(place.at("host/etc/cdi/fabric.json")).unwrap();
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

// req: DOCTOR-11
#[test]
fn a_spec_that_only_a_runtime_can_read_may_define_the_name() {
    let place = place(&naming("nobodys.com/a=b"));
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
    place.write("host/etc/cdi/odd.json", &FABRIC.replace("0.5.0", "9.0.0"));
    let (code, said) = judge(&place, HOOK);
    assert_eq!(code, Some(3));
    assert!(
        said.contains("cannot determine which IMEX channels") && said.contains("odd.json"),
        "{said}"
    );
    let (code, told) = judge(&place, &format!("{HOOK} --warn"));
    assert_eq!((code, told), (Some(0), said));
    // One that names no such device starts.
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
    let (code, said) = judge(&place, HOOK);
    assert_eq!(code, Some(3));
    assert!(
        said.contains(
            "odd.yaml is not valid: devices[0].name: `0x10` is not an unambiguous text: put it in \
             quotes (line 2, column 14)"
        ),
        "{said}"
    );
    place.write("bundle/config.json", &naming("nobodys.com/a=b").to_string());
    assert_eq!(judge(&place, HOOK), (Some(0), String::new()));
}

#[test]
fn pods_of_an_exempt_namespace_are_not_judged() {
    let place = place(&naming("management.nvidia.com/gpu=all"));
    assert_eq!(judge(&place, HOOK).0, Some(1));
    let exempt = format!("{HOOK} --exempt-namespace other --exempt-namespace gpu-operator");
    assert_eq!(judge(&place, &exempt), (Some(0), String::new()));
    // A container that is of no pod is in no namespace.
    place.write("bundle/config.json", &with_channel(&json!({})).to_string());
    assert_eq!(judge(&place, &exempt).0, Some(1));
    let (code, _) = judge(&place, &format!("{HOOK} --exempt-namespace x"));
    assert_eq!(code, Some(1));
}

#[test]
fn standard_input_is_read_to_its_end_even_if_it_is_no_state() {
    let place = place(&with_channel(&json!({})));
    // More than a pipe holds: the write would fail if the hook had left.
    let endless = vec![b'{'; 20 << 20];
    for (input, said) in [
        (&endless[..], "too long for a container state"),
        (b"{}", "is not a container state"),
        (b"", "is not a container state"),
        (
            br#"{"bundle": "nowhere"}"#,
            "cannot read nowhere/config.json",
        ),
    ] {
        let output = hook(&place, HOOK, input);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

#[test]
fn it_gives_up_after_its_timeout_whatever_it_waits_for() {
    let place = place(&with_channel(&json!({})));
    let mut command = place.command(&format!("{HOOK} --timeout 1"));
    let started = Instant::now();
    // Nobody ever writes to this pipe, or closes it.
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

/// kubelet's own checkpoint, in which these pods have the claim.
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
