//! Two faults at once: the first finding is one of the two, never a consequence.

use std::fs;

use host_doctor::{Facts, Invocation, Options, Severity, diagnose};

use super::host::{CLAIM, Host, KUBELET, LIBRARY, PLUGIN, SPEC, kubelet, library, spec};
use super::makers::{NODES, REGISTRATION};

/// The finding's id, and how to break a healthy host that way.
type Breakage = (&'static str, fn(&Host));

/// In any order two of them can be done to one host, unless both are about one file.
const BREAKAGES: [Breakage; 26] = [
    ("nvml-missing", |host| host.remove("usr/lib64")),
    ("nvidia-module-not-loaded", |host| {
        host.remove("proc/driver/nvidia/version");
    }),
    ("driver-version-mismatch", |host| {
        let line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23\n";
        host.write("proc/driver/nvidia/version", line);
    }),
    ("nvml-unloadable", |host| {
        let mut foreign = library();
        foreign.splice(18..19, [21]);
        host.write(LIBRARY, foreign);
    }),
    ("gpu-without-driver", |host| host.gpu(None)),
    ("imex-channel-major-missing", |host| {
        host.write("proc/devices", "Character devices:\n234 nvidia-caps\n");
    }),
    ("imex-node-wrong", |host| {
        host.write("dev/nvidia-caps-imex-channels/channel0", "");
    }),
    ("imex-capability-node-missing", |host| {
        host.remove("proc/700");
    }),
    ("host-imex-no-nodes", |host| host.write(NODES, "")),
    ("host-imex-own-address-missing", |host| {
        host.write("proc/700/net/fib_trie", "|-- 10.9.9.9\n/32 host LOCAL\n");
    }),
    ("cdi-directory-link", |host| {
        fs::rename(host.at("run/cdi"), host.at("run/cdi.real")).unwrap();
        std::os::unix::fs::symlink("cdi.real", host.at("run/cdi")).unwrap();
    }),
    ("cdi-leftover", |host| host.write("etc/cdi/a.tmp", "")),
    ("cdi-spec-in-subdirectory", |host| {
        let text = fs::read_to_string(host.at(SPEC)).unwrap();
        host.remove(SPEC);
        host.write(&SPEC.replace("run/cdi/", "run/cdi/old/"), text);
    }),
    ("runtime-cdi-off", |host| {
        let table = "[plugins.'io.containerd.grpc.v1.cri']";
        host.containerd(
            "1.7.28",
            &format!("version = 2\n{table}\nenable_cdi = false\n"),
        );
    }),
    ("cdi-spec-malformed", |host| {
        host.write("etc/cdi/bad.json", "{");
    }),
    ("cdi-spec-stale-major", |host| {
        let devices = "Character devices:\n234 nvidia-caps\n240 nvidia-caps-imex-channels\n";
        host.write("proc/devices", devices);
    }),
    ("checkpoint-damaged", |host| {
        let whole = Host::fixture("02-channel-completed.json");
        host.write(&checkpoint(), whole.replace("default", "defaulT"));
    }),
    ("checkpoint-of-earlier-boot", |host| {
        host.write("proc/sys/kernel/random/boot_id", "another\n");
    }),
    ("checkpoint-set-aside", |host| {
        fs::rename(
            host.at(&checkpoint()),
            host.at(&(checkpoint() + ".damaged-empty")),
        )
        .unwrap();
    }),
    ("plugin-not-registered", |host| host.remove(REGISTRATION)),
    ("plugin-not-listening", |host| {
        host.remove(REGISTRATION);
        host.socket(REGISTRATION);
        host.listens("/run/other.sock");
    }),
    ("kubelet-state-damaged", |host| {
        host.write(KUBELET, kubelet(&[CLAIM]).replace("node-a", "node-b"));
    }),
    ("claim-without-spec", |host| host.remove(SPEC)),
    ("cdi-device-conflict", |host| {
        host.write("run/cdi/copy.json", spec("0.5.0", 235));
    }),
    ("device-marker-unusable", |host| {
        fs::create_dir(host.at(&format!("{PLUGIN}/device-is-shared"))).unwrap();
    }),
    ("imex-channels-env-bypass", |host| {
        host.write("etc/nvidia-container-runtime/config.toml", "[features]\n");
    }),
];

fn checkpoint() -> String {
    format!("{PLUGIN}/checkpoint.json")
}

/// All findings above info, in order.
fn found(host: &Host) -> Vec<&'static str> {
    let host = host_doctor::Host::open(&host.at("")).unwrap();
    let facts = Facts::read(&host, &Options::default());
    let findings = diagnose(&facts, &Invocation::default()).findings;
    let bad = findings.iter().any(|it| it.severity > Severity::Info);
    findings.iter().filter(|_| bad).map(|it| it.id).collect()
}

// req: DOCTOR-2
#[test]
fn each_thing_alone_is_first() {
    for (id, break_it) in BREAKAGES {
        let host = Host::healthy();
        break_it(&host);
        let found = found(&host);
        assert_eq!(found.first(), Some(&id), "{found:?}");
    }
}

// req: DOCTOR-2
#[test]
fn of_two_things_one_is_first_and_never_what_follows_from_them() {
    let mut wrong = Vec::new();
    for (index, (one, break_one)) in BREAKAGES.iter().enumerate() {
        for (other, break_other) in BREAKAGES.iter().skip(index + 1) {
            if excludes(one, other) {
                continue;
            }
            let host = Host::healthy();
            break_one(&host);
            break_other(&host);
            let found = found(&host);
            if ![Some(one), Some(other)].contains(&found.first()) {
                wrong.push(format!("{one} and {other}: {found:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} pairs:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Two that are about one file: the second undoes the first, or cannot be done.
fn excludes(one: &str, other: &str) -> bool {
    const FILES: [&[&str]; 6] = [
        &["nvml-missing", "nvml-unloadable"],
        &["nvidia-module-not-loaded", "driver-version-mismatch"],
        &["imex-channel-major-missing", "cdi-spec-stale-major"],
        &[
            "imex-capability-node-missing",
            "host-imex-own-address-missing",
        ],
        &["plugin-not-registered", "plugin-not-listening"],
        &["checkpoint-damaged", "checkpoint-set-aside"],
    ];
    const SPEC_FILE: [&str; 3] = [
        "cdi-directory-link",
        "cdi-spec-in-subdirectory",
        "claim-without-spec",
    ];
    let are = |ids: &[&str]| ids.contains(&one) && ids.contains(&other);
    are(&SPEC_FILE) || FILES.iter().any(|ids| are(ids))
}
