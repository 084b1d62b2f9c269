//! Hosts with the GPU plugin, alone or beside the `ComputeDomain` plugin, in `doctor`, `list` and
//! `checkpoint`. The files are those that `gpu-node` writes.

use std::fs;
use std::process::Command;

use dra_checkpoint::Checkpoint;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::host::{BOOT, CLAIM, Host, KUBELET, PLUGIN, SPEC, finding, text};
use super::prepared_gpus::{GpuNode, HOOK};
use super::{stderr, stdout};

const GPU_CLAIM: &str = "22222222-aaaa-4bbb-8ccc-000000000002";
const ABORTED: &str = "33333333-aaaa-4bbb-8ccc-000000000003";
const GPU_PLUGIN: &str = "var/lib/kubelet/plugins/gpu.nvidia.com";
const GPU_SOCKET: &str = "var/lib/kubelet/plugins_registry/gpu.nvidia.com-reg.sock";

fn gpu_spec() -> String {
    SPEC.replace("compute-domain", "gpu")
        .replace(CLAIM, GPU_CLAIM)
}

/// Adds the GPU plugin and its claim.
fn add_gpus(host: &Host) -> GpuNode {
    let node = GpuNode::start(&host.at(GPU_PLUGIN), &host.at("run/cdi"), BOOT);
    node.prepare(GPU_CLAIM, "gpu-0");
    host.write(HOOK, "");
    host.write(GPU_SOCKET, "");
    write_kubelet(host, &["compute-domain.nvidia.com", "gpu.nvidia.com"]);
    node
}

/// A healthy host with a claim of each driver.
fn both() -> (Host, GpuNode) {
    let host = Host::healthy();
    let node = add_gpus(&host);
    (host, node)
}

/// A healthy host that never had the `ComputeDomain` plugin.
fn gpus() -> (Host, GpuNode) {
    let (host, node) = both();
    for path in [PLUGIN, SPEC] {
        host.remove(path);
    }
    host.remove("var/lib/kubelet/plugins_registry/compute-domain.nvidia.com-reg.sock");
    write_kubelet(&host, &["gpu.nvidia.com"]);
    (host, node)
}

/// kubelet's state, with the claims of these drivers.
fn write_kubelet(host: &Host, drivers: &[&str]) {
    let claims = [
        (CLAIM, "compute-domain.nvidia.com"),
        (GPU_CLAIM, "gpu.nvidia.com"),
    ];
    let claims = claims.iter().filter(|(_, driver)| drivers.contains(driver));
    let claims = claims.map(|(uid, driver)| {
        json!({
            "ClaimUID": uid, "ClaimName": "worker-0", "Namespace": "default",
            "DriverState": {*driver: {"Devices": [{"DeviceName": "d"}]}},
        })
    });
    let claims: Vec<Value> = claims.collect();
    let data = json!({"ClaimInfoStateList": claims}).to_string();
    let checksum = crc32fast::hash(data.as_bytes());
    let state = json!({"Data": data, "Checksum": checksum}).to_string();
    host.write(KUBELET, state);
}

/// The subject and the severity.
fn text_of(finding: &Value) -> (String, &str) {
    let subject = text(finding, "subject").to_owned();
    (subject, text(finding, "severity"))
}

fn summary(report: &Value) -> &str {
    let areas = report.get("areas").and_then(Value::as_array).unwrap();
    let area = areas.iter().find(|it| it["name"] == "claims").unwrap();
    text(area, "summary")
}

// req: DOCTOR-15
#[test]
fn a_healthy_host_with_one_or_both_drivers_has_no_finding_about_claims() {
    let (host, _node) = both();
    let report = host.json("doctor --json", 0);
    assert_eq!(
        summary(&report),
        "compute-domain.nvidia.com: 1 in the checkpoint, 1 with a spec, 1 known to kubelet; 1 domain on channel 0; \
         gpu.nvidia.com: 1 in the checkpoint, 1 with a spec, 1 known to kubelet"
    );
    let (host, _node) = gpus();
    let report = host.json("doctor --json", 0);
    let counts = "1 in the checkpoint, 1 with a spec, 1 known to kubelet";
    assert_eq!(summary(&report), counts);
}

// req: DOCTOR-15
#[test]
fn faults_of_gpu_claims_are_found_and_those_of_the_other_driver_are_not() {
    type Break = fn(&Host);
    let cases: [(&str, &str, Break); 8] = [
        ("claim-without-spec", GPU_PLUGIN, |host| {
            host.remove(&gpu_spec());
        }),
        ("claim-unknown-to-plugin", GPU_PLUGIN, |host| {
            host.remove(&format!("{GPU_PLUGIN}/checkpoint.json"));
        }),
        ("claim-unknown-to-kubelet", GPU_PLUGIN, |host| {
            write_kubelet(host, &["compute-domain.nvidia.com"]);
        }),
        ("spec-without-claim", GPU_PLUGIN, |host| {
            let orphan = gpu_spec().replace(GPU_CLAIM, ABORTED);
            let spec = fs::read_to_string(host.at(&gpu_spec())).unwrap();
            host.write(&orphan, spec.replace(GPU_CLAIM, ABORTED));
        }),
        ("plugin-not-registered", "gpu.nvidia.com", |host| {
            host.remove(GPU_SOCKET);
        }),
        ("plugin-not-listening", GPU_SOCKET, |host| {
            host.listens(&format!(
                "/{}",
                GPU_SOCKET.replace("gpu.", "compute-domain.")
            ));
        }),
        ("checkpoint-damaged", GPU_PLUGIN, |host| {
            let file = format!("{GPU_PLUGIN}/checkpoint.json");
            let bytes = fs::read_to_string(host.at(&file)).unwrap();
            host.write(&file, bytes.replace("gpu-0", "gpu-1"));
        }),
        ("checkpoint-set-aside", GPU_PLUGIN, |host| {
            host.write(&format!("{GPU_PLUGIN}/checkpoint.json.damaged-empty"), "");
        }),
    ];
    for (id, name, damage) in cases {
        let (host, _node) = both();
        damage(&host);
        let report = host.json("doctor --json", 1);
        let findings = report.get("findings").and_then(Value::as_array).unwrap();
        let bad = findings.iter().filter(|it| it["severity"] != "info");
        let bad: Vec<&Value> = bad.collect();
        let [found] = bad.as_slice() else {
            panic!("{id}: {bad:#?}");
        };
        assert_eq!(found["id"], id);
        let texts = ["subject", "evidence"].map(|it| text(found, it)).concat();
        assert!(texts.contains(name), "{id}: {texts}");
        assert!(!texts.contains("compute-domain"), "{id}: {texts}");
    }
}

/// Replaces text in the GPU plugin's checkpoint, and corrects its checksums.
fn rewrite_checkpoint(host: &Host, from: &str, to: &str) {
    let file = format!("{GPU_PLUGIN}/checkpoint.json");
    let text = fs::read_to_string(host.at(&file)).unwrap();
    let mut text = text.replace(from, to);
    let damaged = Checkpoint::<Box<RawValue>>::decode(text.as_bytes()).unwrap_err();
    for mismatch in damaged.mismatches {
        let stored = mismatch.stored.unwrap().to_string();
        text = text.replace(&stored, &mismatch.computed.to_string());
    }
    host.write(&file, text);
}

// req: DOCTOR-15
#[test]
fn a_gpu_that_two_claims_hold_is_found_unless_they_have_shares_or_admin_access() {
    let (host, node) = gpus();
    node.prepare(ABORTED, "gpu-1");
    host.remove(KUBELET);
    assert!(!host.ids(0).contains(&"gpu-of-two-claims".to_owned()));

    rewrite_checkpoint(&host, "gpu-1", "gpu-0");
    let report = host.json("doctor --json", 1);
    let found = finding(&report, "gpu-of-two-claims").unwrap();
    assert_eq!(text(found, "subject"), "device gpu-0");
    for uid in [GPU_CLAIM, ABORTED] {
        assert!(text(found, "evidence").contains(uid), "{found}");
    }

    let mut device = r#""device":"gpu-0""#.to_owned();
    for field in [r#""adminAccess":true"#, r#""shareID":"share""#] {
        let with_field = format!(r#""device":"gpu-0",{field}"#);
        rewrite_checkpoint(&host, &device, &with_field);
        device = with_field;
        let ids = host.ids(0);
        assert!(!ids.contains(&"gpu-of-two-claims".to_owned()), "{ids:?}");
    }
}

// req: DOCTOR-18
#[test]
fn a_time_slice_that_an_ended_claim_has_left_is_found() {
    let (host, node) = gpus();
    host.remove(KUBELET);
    node.prepare_sliced(ABORTED, "gpu-1");
    let journal = format!("{GPU_PLUGIN}/effects/{ABORTED}.json");
    let written = fs::read_to_string(host.at(&journal)).unwrap();
    let report = host.json("doctor --json", 0);
    assert!(finding(&report, "gpu-change-left").is_none());

    // As after a crash before the last step.
    node.unprepare(ABORTED);
    host.write(&journal, &written);
    let report = host.json("doctor --json", 1);
    let found = finding(&report, "gpu-change-left").unwrap();
    assert_eq!(text_of(found), (format!("/{journal}"), "warning"));
    let (_, gpu) = written.split_once(r#""gpu":""#).unwrap();
    let gpu = gpu.split('"').next().unwrap();
    assert!(gpu.starts_with("GPU-"), "{written}");
    for name in [ABORTED, "default/worker-0-gpu", gpu] {
        assert!(text(found, "evidence").contains(name));
    }

    host.write(&journal, "{");
    let report = host.json("doctor --json", 1);
    assert!(finding(&report, "gpu-change-left").is_some());
}

// req: DOCTOR-19
#[test]
fn a_device_plugin_is_found_while_it_listens_beside_the_gpu_plugin() {
    let plugin = "var/lib/kubelet/device-plugins/nvidia-gpu.sock";
    let channels = GPU_SOCKET.replace("gpu.", "compute-domain.");
    let (host, _node) = both();
    host.write(plugin, "");
    host.write("var/lib/kubelet/device-plugins/kubelet.sock", "");
    let kubelet = "/var/lib/kubelet/device-plugins/kubelet.sock";
    host.listens(&format!("/{GPU_SOCKET} /{channels} {kubelet} /{plugin}"));
    let report = host.json("doctor --json", 1);
    let found = finding(&report, "device-plugin-beside-dra").unwrap();
    assert_eq!(text_of(found), (format!("/{plugin}"), "warning"));

    // It was killed.
    host.listens(&format!("/{GPU_SOCKET} /{channels} {kubelet}"));
    assert!(!host.ids(0).contains(&"device-plugin-beside-dra".to_owned()));
}

/// Helm removes no directory of a hostPath.
#[test]
fn a_directory_that_the_gpu_plugin_has_left_is_an_info_unless_the_plugin_runs() {
    let host = Host::healthy();
    let checkpoint = Host::fixture("20-gpu-empty.json");
    host.write(&format!("{GPU_PLUGIN}/checkpoint.json"), checkpoint);
    let report = host.json("doctor --json", 0);
    let found = finding(&report, "plugin-not-registered").unwrap();
    assert_eq!(text(found, "severity"), "info");
    assert!(text(found, "evidence").contains("no socket of gpu.nvidia.com"));
    let shown = host.json("checkpoint show --json --driver gpu.nvidia.com", 0);
    assert_eq!(shown["driver"], "gpu.nvidia.com");

    host.root_process(951, "gpu-kubelet-plu", "/usr/bin/gpu-kubelet-plugin");
    let report = host.json("doctor --json", 1);
    let found = finding(&report, "plugin-not-registered").unwrap();
    assert_eq!(text(found, "severity"), "error");
}

#[test]
fn what_both_drivers_have_in_common_is_reported_once() {
    let (host, _node) = both();
    host.write(KUBELET, "{");
    let ids = host.ids(1);
    let count = |id: &str| ids.iter().filter(|it| *it == id).count();
    assert_eq!(count("kubelet-state-damaged"), 1, "{ids:?}");

    let (host, _node) = both();
    host.remove("var/lib/kubelet");
    fs::create_dir_all(host.at("var/lib/kubelet")).unwrap();
    fs::create_dir_all(host.at("var/lib/k0s/kubelet")).unwrap();
    let ids = host.ids(1);
    let count = |id: &str| ids.iter().filter(|it| *it == id).count();
    assert_eq!(count("plugin-directory-absent"), 1, "{ids:?}");
}

#[test]
fn specs_show_which_driver_a_host_has_if_kubelets_root_is_another() {
    let (host, _node) = gpus();
    fs::rename(host.at("var/lib/kubelet"), host.at("var/lib/other")).unwrap();
    let report = host.json("doctor --json", 1);
    let found = finding(&report, "plugin-directory-absent").unwrap();
    assert_eq!(text(found, "subject"), format!("/{GPU_PLUGIN}"));
}

#[test]
fn lost_aborted_claims_are_an_info() {
    let (host, node) = gpus();
    node.abort(ABORTED, "gpu-1");
    let aborted = format!("{GPU_PLUGIN}/aborted.json");
    let intact = host.json("doctor --json", 0);
    assert!(finding(&intact, "aborted-claims-lost").is_none());
    assert!(summary(&intact).starts_with("2 in"));

    host.write(&aborted, "{");
    let report = host.json("doctor --json", 0);
    let found = finding(&report, "aborted-claims-lost").unwrap();
    assert_eq!(text(found, "subject"), format!("/{aborted}"));
    assert_eq!(text(found, "severity"), "info");

    // The plugin starts again.
    drop(node);
    GpuNode::start(&host.at(GPU_PLUGIN), &host.at("run/cdi"), BOOT);
    let report = host.json("doctor --json", 0);
    let found = finding(&report, "aborted-claims-lost").unwrap();
    let renamed = format!("/{aborted}.damaged-not-json");
    assert_eq!(text(found, "subject"), renamed);
    let shown = host.out("checkpoint show", 0);
    assert!(!shown.contains("aborted.json"), "{shown}");
}

#[test]
fn the_bundle_has_the_claims_of_both_drivers() {
    let (host, _node) = both();
    let bundle = host.at("b.tar");
    host.out(&format!("doctor --bundle {}", bundle.display()), 0);
    let archive = String::from_utf8_lossy(&fs::read(bundle).unwrap()).into_owned();
    for (uid, driver) in [
        (CLAIM, "compute-domain.nvidia.com"),
        (GPU_CLAIM, "gpu.nvidia.com"),
    ] {
        let line = format!("{uid} driver:{driver} checkpoint:PrepareCompleted cdi:spec");
        assert!(archive.contains(&line), "{line}");
    }
}

// === list ===

#[test]
fn list_has_the_claims_of_both_drivers() {
    let (host, _node) = both();
    let list = host.json("list --json", 0);
    assert_eq!(list["checkpoint"], "read");
    let devices = list.get("devices").and_then(Value::as_array).unwrap();
    let claims = devices.iter().map(|it| {
        let claim = it.get("claim").unwrap();
        (text(claim, "uid"), text(claim, "name"))
    });
    let claims: Vec<_> = claims.collect();
    let channel = "default/worker-0-compute-domain-channel-abcde";
    assert_eq!(
        claims,
        [(CLAIM, channel), (GPU_CLAIM, "default/worker-0-gpu")]
    );

    host.write(&format!("{GPU_PLUGIN}/checkpoint.json"), "{");
    let list = host.json("list --json", 0);
    assert_eq!(list["checkpoint"], "damaged", "the worst");
    // The table has nothing from this checkpoint.
    assert_eq!(stderr(&host.run("list")), "");
}

#[test]
fn a_missing_hook_of_a_gpu_claims_spec_is_fixed_by_its_plugin() {
    let (host, _node) = gpus();
    host.remove(HOOK);
    let report = host.json("doctor --json", 1);
    let found = finding(&report, "cdi-spec-path-missing").unwrap();
    assert_eq!(text(found, "subject"), format!("/{}", gpu_spec()));
    let fix = text(found, "fix");
    assert!(fix.contains("rewrites the specs of its claims"), "{fix}");
    assert!(fix.contains("within five minutes"), "{fix}");
}

#[test]
fn a_damaged_or_missing_spec_of_a_claim_is_written_again_by_the_running_plugin() {
    let (host, _node) = gpus();
    let fix = |id: &str| {
        let report = host.json("doctor --json", 1);
        text(finding(&report, id).unwrap(), "fix").to_owned()
    };
    host.remove(&gpu_spec());
    let missing = fix("claim-without-spec");
    assert!(missing.contains("writes missing specs again"), "{missing}");

    host.write(&gpu_spec(), "garbage");
    let report = host.json("doctor --json", 1);
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    let subject = format!("/{}", gpu_spec());
    let found = findings.iter().find(|it| it["subject"] == subject.as_str());
    let garbage = text(found.unwrap(), "fix");
    assert!(
        garbage.contains("writes the specs of its claims"),
        "{garbage}"
    );
}

// === checkpoint ===

#[test]
fn show_has_the_checkpoint_of_each_driver_on_the_node() {
    let (host, node) = gpus();
    node.abort(ABORTED, "gpu-1");
    let shown = host.out("checkpoint show", 0);
    assert!(shown.contains("driver    gpu.nvidia.com\n"), "{shown}");
    let claim = format!("{GPU_CLAIM}  Completed  default/worker-0-gpu  gpu-0    -");
    assert!(shown.contains(&claim), "{shown}");
    let id = format!("k8s.gpu.nvidia.com/claim={GPU_CLAIM}-gpu-0");
    assert!(shown.contains(&id), "{shown}");
    let aborted = format!("{ABORTED}  Aborted    default/worker-0-gpu  (gpu-1)");
    assert!(shown.contains(&aborted), "{shown}");
    let of_gpus = host.json("checkpoint show --json", 0);
    assert_eq!(of_gpus["driver"], "gpu.nvidia.com");
    let claims = of_gpus.get("claims").and_then(Value::as_array).unwrap();
    let device = &claims[0]["devices"][0];
    assert_eq!(device["device"], "gpu-0");
    assert_eq!(device["channel"], Value::Null);
    assert_eq!(claims[1]["state"], "aborted");

    let (host, _node) = both();
    let shown = host.out("checkpoint show", 0);
    for text in [
        "compute-domain.nvidia.com\n",
        CLAIM,
        "gpu.nvidia.com\n",
        GPU_CLAIM,
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    // The boot id is that of the host, not of this machine.
    assert!(shown.contains("(this host's current boot)"), "{shown}");
    host.write("proc/sys/kernel/random/boot_id", "later");
    let shown = host.out("checkpoint show", 0);
    assert!(shown.contains("(not this host's current boot)"), "{shown}");
    let refused = host.run("checkpoint show --json");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("pass --driver"));
    for driver in ["gpu.nvidia.com", "compute-domain.nvidia.com"] {
        let one = host.json(&format!("checkpoint show --json --driver {driver}"), 0);
        assert_eq!(one["driver"], driver);
    }
    let unknown = host.run("checkpoint show --driver gpu");
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn verify_checks_the_files_of_each_driver_on_the_node() {
    let (host, node) = both();
    node.abort(ABORTED, "gpu-1");
    let verdicts = host.out("checkpoint verify", 0);
    let files: Vec<&str> = verdicts
        .lines()
        .map(|line| line.strip_suffix(": OK").unwrap())
        .collect();
    let expected = [
        format!("{PLUGIN}/checkpoint.json"),
        format!("{GPU_PLUGIN}/checkpoint.json"),
        format!("{GPU_PLUGIN}/aborted.json"),
    ];
    let expected = expected.map(|path| host.at(&path).display().to_string());
    assert_eq!(files, expected);

    // The state of each record in aborted.json is right there.
    let aborted = format!("{GPU_PLUGIN}/aborted.json");
    let whole = fs::read_to_string(host.at(&aborted)).unwrap();
    host.write(&aborted, whole.replace("gpu-1", "gpu-2"));
    let verdicts = host.out("checkpoint verify", 1);
    let reason = "aborted.json: CORRUPT: ";
    assert!(verdicts.contains(reason), "{verdicts}");
    assert!(!verdicts.contains("PrepareAborted"), "{verdicts}");

    let canonical = host.run("checkpoint verify --canonical --driver gpu.nvidia.com");
    let checkpoint = host.at(&format!("{GPU_PLUGIN}/checkpoint.json"));
    assert_eq!(stdout(&canonical), fs::read_to_string(checkpoint).unwrap());

    host.write(&format!("{GPU_PLUGIN}/aborted.json"), "{");
    let verdicts = host.out("checkpoint verify", 1);
    assert!(verdicts.contains("aborted.json: CORRUPT: "), "{verdicts}");
    let shown = host.run("checkpoint show");
    assert_eq!(shown.status.code(), Some(1));
    assert!(stderr(&shown).contains("aborted.json is damaged"));
    assert!(stdout(&shown).contains(GPU_CLAIM));
}

#[test]
fn a_copy_of_a_file_is_recognized_by_its_records() {
    let (host, node) = gpus();
    node.abort(ABORTED, "gpu-1");
    let shown = |name: &str, copy: &str| {
        let copy = host.at(copy);
        fs::copy(host.at(&format!("{GPU_PLUGIN}/{name}")), &copy).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_cdi-gen"));
        let output = program.args(["checkpoint", "show", "--json"]).arg(copy);
        let report = output.output().unwrap().stdout;
        serde_json::from_slice::<Value>(&report).unwrap()
    };
    let report = shown("checkpoint.json", "copy");
    assert_eq!(report["driver"], "gpu.nvidia.com");
    assert_eq!(report["damage"], Value::Null);
    assert_eq!(report["claims"][0]["uid"], GPU_CLAIM);
    let report = shown("aborted.json", "aborted.json");
    assert_eq!(report["driver"], "gpu.nvidia.com");
    assert_eq!(report["claims"][0]["state"], "aborted");
    // Go's GPU plugin does not start with an aborted record in its checkpoint.
    let report = shown("aborted.json", "checkpoint.json");
    assert_eq!(report["damage"]["code"], "aborted-state");

    let file = format!("{GPU_PLUGIN}/aborted.json");
    let torn = fs::read_to_string(host.at(&file)).unwrap();
    host.write(&file, torn.replace("gpu-1", "gpu-2"));
    let report = shown("aborted.json", "aborted.json.damaged-both-checksums");
    let fix = report["damage"]["fix"].as_str().unwrap();
    assert!(fix.starts_with("nothing to do"), "{fix}");
}
