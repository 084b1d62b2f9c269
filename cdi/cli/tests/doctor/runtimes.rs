//! The runtime that serves kubelet: its answers, and its files if it cannot be queried.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::cri::{Runtime, containerd_config, serve};
use super::host::{Host, ON, finding, text};

const CONFIG: &str = "etc/containerd/config.toml";
const OFF: &str = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n";
const OFF_IN_2: &str = "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n";
/// As Docker's package has it (`containerd.io`, /etc/containerd/config.toml).
const OF_DOCKER: &str = "#   Copyright\n\ndisabled_plugins = [\"cri\"]\n";

/// The ids of findings about runtimes above info.
fn bad(host: &Host) -> Vec<String> {
    let all = report(host);
    let findings = all.get("findings").and_then(Value::as_array).unwrap();
    let ours = findings.iter().filter(|it| text(it, "severity") != "info");
    let ids = ours.map(|it| text(it, "id").to_owned());
    ids.filter(|id| id.starts_with("runtime-")).collect()
}

fn report(host: &Host) -> Value {
    let output = host.run("doctor --json");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A member of the first finding with an id.
fn of(host: &Host, id: &str, member: &str) -> String {
    let report = report(host);
    let found = finding(&report, id);
    assert!(found.is_some(), "no {id} in {report:#}");
    text(found.unwrap(), member).to_owned()
}

fn dirs() -> Value {
    json!(["/etc/cdi", "/var/run/cdi"])
}

// === queried ===

// req: DOCTOR-12
#[test]
fn containerds_answer_counts_rather_than_its_files() {
    let host = Host::healthy();
    host.write(CONFIG, OFF);
    assert_eq!(bad(&host), ["runtime-cdi-off"]);
    host.containerd_answers("v2.4.2", &json!({"enableCDI": true, "cdiSpecDirs": dirs()}));
    assert_eq!(bad(&host), [""; 0]);
    let host = Host::healthy();
    host.write(CONFIG, ON);
    host.containerd_answers(
        "v1.7.28",
        &json!({"enableCDI": false, "cdiSpecDirs": dirs()}),
    );
    assert_eq!(bad(&host), ["runtime-cdi-off"]);
    let subject = of(&host, "runtime-cdi-off", "subject");
    assert_eq!(subject, format!("containerd 1.7.28 (/{CONFIG})"));
}

#[test]
fn each_release_answers_in_its_own_way() {
    for (version, members, expected) in [
        ("v1.6.28", json!({}), &["runtime-without-cdi"][..]),
        (
            "v1.7.28",
            json!({"enableCDI": true, "cdiSpecDirs": dirs()}),
            &[],
        ),
        // One in which CDI is always on needs no switch.
        ("v3.0.0", json!({"cdiSpecDirs": dirs()}), &[]),
        (
            "v2.1.3",
            json!({"enableCDI": true, "cdiSpecDirs": ["/run/cdi/"]}),
            &[],
        ),
        (
            "v2.1.3",
            json!({"enableCDI": true, "cdiSpecDirs": ["/opt/cdi"]}),
            &["runtime-spec-dirs"],
        ),
        (
            "v2.1.3",
            json!({"enableCDI": false, "cdiSpecDirs": ["/opt/cdi"]}),
            &["runtime-cdi-off"],
        ),
    ] {
        let host = Host::healthy();
        host.containerd_answers(version, &members);
        assert_eq!(bad(&host), expected, "{version} {members}");
        assert!(finding(&report(&host), "runtime-cdi-unknown").is_none());
    }
}

#[test]
fn the_program_of_the_default_runtime_has_to_be_there() {
    let program = "/usr/local/nvidia/toolkit/nvidia-container-runtime";
    let nvidia = |kind: &str, program: &str| {
        json!({"enableCDI": true, "cdiSpecDirs": dirs(), "containerd": {
            "defaultRuntimeName": "nvidia",
            "runtimes": {"nvidia": {"runtimeType": kind, "options": {"BinaryName": program}}},
        }})
    };
    let host = |members: &Value| {
        let host = Host::healthy();
        host.containerd_answers("v2.1.3", members);
        host
    };
    let runc = "io.containerd.runc.v2";
    let gone = host(&nvidia(runc, program));
    assert_eq!(bad(&gone), ["runtime-handler-missing"]);
    gone.write(&program[1..], "");
    assert_eq!(bad(&gone), [""; 0]);
    // By a name that only its service finds, and of another shim.
    for (kind, program) in [(runc, "nvidia-oci"), ("io.containerd.kata.v2", program)] {
        assert_eq!(
            bad(&host(&nvidia(kind, program))),
            [""; 0],
            "{kind} {program}"
        );
    }
}

#[test]
fn cri_o_answers_with_its_configuration() {
    let crun = "/usr/libexec/crio/crun";
    let config = |dirs: &str| {
        let handler = format!("[crio.runtime.runtimes.crun]\nruntime_path = \"{crun}\"\n");
        format!("[crio]\n[crio.runtime]\ndefault_runtime = \"crun\"\n{dirs}{handler}").leak()
    };
    let both = "cdi_spec_dirs = [\"/etc/cdi\", \"/var/run/cdi\"]\n";
    let one = "cdi_spec_dirs = [\"/etc/cdi\"]\n";
    for (version, dirs, has_crun, expected) in [
        ("1.34.1", both, true, &[][..]),
        ("1.34.1", one, true, &["runtime-spec-dirs"]),
        ("1.34.1", both, false, &["runtime-handler-missing"]),
        ("1.27.4", both, true, &["runtime-without-cdi"]),
        ("1.22.0", "", true, &["runtime-without-cdi"]),
    ] {
        let host = Host::healthy();
        host.remove_containerd();
        host.write("usr/bin/crio", "");
        if has_crun {
            host.write(&crun[1..], "");
        }
        host.answers(Runtime::CriO(version, config(dirs)));
        assert_eq!(bad(&host), expected, "{version} {dirs}");
    }
}

#[test]
fn a_runtime_that_hides_its_configuration_still_serves_kubelet() {
    let host = Host::healthy();
    host.kubelet_asks("/run/crio/crio.sock");
    host.answers(Runtime::CriO("1.34.1", ""));
    assert_eq!(bad(&host), [""; 0]);
    let evidence = of(&host, "runtime-cdi-unknown", "evidence");
    assert!(
        evidence.contains("querying the runtime's configuration failed"),
        "{evidence}"
    );
    assert_eq!(
        of(&host, "runtime-cdi-unknown", "fix"),
        "see the output of `crio status config` (cdi_spec_dirs)"
    );
}

#[test]
fn docker_behind_cri_dockerd_answers_as_docker() {
    let host = Host::healthy();
    host.write("usr/bin/cri-dockerd", "");
    host.root_process(
        900,
        "kubelet",
        "kubelet --container-runtime-endpoint unix:///run/cri-dockerd.sock",
    );
    host.answers(Runtime::CriDockerd);
    assert_eq!(bad(&host), ["runtime-without-cdi"]);
}

#[test]
fn without_cri_the_line_that_disables_it_is_named() {
    let host = Host::healthy();
    host.write(CONFIG, OF_DOCKER);
    let line = "remove \"cri\" from disabled_plugins in line 3 of /etc/containerd/config.toml, \
         and restart containerd";
    assert_eq!(of(&host, "runtime-cri-disabled", "fix"), line);
    host.answers(Runtime::WithoutCri);
    assert_eq!(bad(&host), ["runtime-cri-disabled"]);
    assert_eq!(of(&host, "runtime-cri-disabled", "fix"), line);
    host.write(CONFIG, ON);
    let evidence = of(&host, "runtime-cri-disabled", "evidence");
    assert!(
        evidence.contains("reports that it does not serve CRI"),
        "{evidence}"
    );
}

#[test]
fn an_unresponsive_runtime_is_not_waited_for() {
    let host = Host::healthy();
    host.answers(Runtime::Silent);
    assert_eq!(bad(&host), ["runtime-not-answering"]);
    let evidence = of(&host, "runtime-not-answering", "evidence");
    assert!(
        evidence.contains(
            "the query at kubelet's socket /run/containerd/containerd.sock failed: no response within"
        ),
        "{evidence}"
    );
}

// === which one ===

#[test]
fn the_runtime_at_kubelets_socket_is_judged() {
    let named = |name: &dyn Fn(&Host)| {
        let host = Host::healthy();
        host.write(CONFIG, ON);
        name(&host);
        let off = containerd_config(&json!({"enableCDI": false, "cdiSpecDirs": dirs()}));
        serve(
            &host.at("opt/own/containerd.sock"),
            Runtime::Containerd("v2.1.3", off),
        );
        assert_eq!(bad(&host), ["runtime-cdi-off"]);
        assert_eq!(
            of(&host, "runtime-not-judged", "subject"),
            format!("containerd 2.1.3 (/{CONFIG})")
        );
    };
    let option = "--container-runtime-endpoint=unix:///opt/own/containerd.sock";
    named(&|host| host.root_process(900, "kubelet", &format!("kubelet {option}")));
    named(&|host| {
        let config = "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: \"unix:///opt/own/containerd.sock\"\n";
        host.write("etc/kubelet.yaml", config);
        host.root_process(900, "kubelet", "kubelet --config /etc/kubelet.yaml");
    });
    named(&|host| {
        let config = r#"{"containerRuntimeEndpoint": "unix:///opt/own/containerd.sock"}"#;
        host.write("etc/kubelet.json", config);
        host.root_process(900, "kubelet", "kubelet --config=/etc/kubelet.json");
    });
    named(&|host| {
        // The last of its directory comes before the file, and an option before both.
        let config = |socket: &str| format!("containerRuntimeEndpoint: unix:///{socket}\n");
        host.write("etc/kubelet.yaml", config("run/containerd/containerd.sock"));
        host.write("etc/kubelet.d/10-a.conf", config("run/crio/crio.sock"));
        host.write("etc/kubelet.d/90-b.conf", config("opt/own/containerd.sock"));
        host.write("etc/kubelet.d/99.bak", config("run/crio/crio.sock"));
        let options = "--config=/etc/kubelet.yaml --config-dir=/etc/kubelet.d";
        host.root_process(900, "kubelet", &format!("kubelet {options}"));
    });
    // k3s has kubelet in its own process.
    named(&|host| {
        host.root_process(
            900,
            "k3s-agent",
            &format!("/usr/local/bin/k3s agent {option}"),
        );
    });
    named(&|host| {
        let config = "container-runtime-endpoint: unix:///opt/own/containerd.sock\n";
        host.write("etc/rancher/rke2/config.yaml.d/50-runtime.yaml", config);
    });
    // Where no process is seen.
    named(&|host| {
        let flags = format!("KUBELET_KUBEADM_ARGS=\"{option} --v=2\"\n");
        host.write("var/lib/kubelet/kubeadm-flags.env", flags);
    });
    named(&|host| {
        let config = "containerRuntimeEndpoint: unix:///opt/own/containerd.sock # ours\n";
        host.write("var/lib/kubelet/config.yaml", config);
    });
}

#[test]
fn k3s_with_docker_is_docker_behind_cri_dockerd() {
    let with = |docker: &dyn Fn(&Host)| {
        let host = Host::healthy();
        host.write(CONFIG, OF_DOCKER);
        docker(&host);
        serve(
            &host.at("run/k3s/cri-dockerd/cri-dockerd.sock"),
            Runtime::CriDockerd,
        );
        assert_eq!(bad(&host), ["runtime-without-cdi"]);
    };
    with(&|host| host.write("etc/rancher/k3s/config.yaml", "docker: true\n"));
    with(&|host| {
        host.root_process(900, "k3s-server", "/usr/local/bin/k3s server --docker");
    });
}

#[test]
fn an_unknown_runtime_is_not_judged() {
    let host = Host::healthy();
    host.kubelet_asks("/run/isulad.sock");
    assert_eq!(bad(&host), [""; 0]);
    serve(&host.at("run/isulad.sock"), Runtime::Other("iSulad"));
    assert_eq!(bad(&host), [""; 0]);
    let evidence = of(&host, "runtime-cdi-unknown", "evidence");
    assert!(
        evidence.contains("the runtime reports the name \"iSulad\""),
        "{evidence}"
    );
    assert_eq!(
        of(&host, "runtime-cdi-unknown", "subject"),
        "kubelet's runtime 2.1.5"
    );
}

#[test]
fn two_names_of_one_runtime_are_one_runtime() {
    let host = Host::healthy();
    host.containerd_answers("v2.1.3", &json!({"enableCDI": true, "cdiSpecDirs": dirs()}));
    fs::create_dir_all(host.at("run/other")).unwrap();
    symlink(
        "/run/containerd/containerd.sock",
        host.at("run/other/cri.sock"),
    )
    .unwrap();
    host.kubelet_asks("/run/other/cri.sock");
    assert!(finding(&report(&host), "runtime-not-judged").is_none());
    // MicroK8s starts it with a revision in the path.
    let socket = "var/snap/microk8s/common/run/containerd.sock";
    let host = distribution("var/snap/microk8s/7964/args/containerd.toml", socket, OFF);
    symlink("7964", host.at("var/snap/microk8s/current")).unwrap();
    let line = "containerd --config /var/snap/microk8s/7964/args/containerd.toml --address";
    host.root_process(800, "containerd", &format!("{line} /{socket}"));
    assert_eq!(bad(&host), ["runtime-cdi-off"]);
    assert!(finding(&report(&host), "runtime-not-judged").is_none());
}

#[test]
fn of_two_running_runtimes_only_the_one_kubelet_names_is_judged() {
    let host = Host::healthy();
    host.write(CONFIG, OFF);
    host.root_process(800, "containerd", "/usr/bin/containerd");
    host.root_process(801, "crio", "/usr/bin/crio");
    assert_eq!(bad(&host), [""; 0]);
    let evidence = of(&host, "runtime-cdi-unknown", "evidence");
    assert!(evidence.contains("containerd 2.1.3 or cri-o"), "{evidence}");
    assert!(finding(&report(&host), "runtime-not-judged").is_none());
    let endpoint = "--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock";
    host.root_process(900, "kubelet", &format!("kubelet {endpoint}"));
    assert_eq!(bad(&host), ["runtime-cdi-off"]);
    // Docker's, which does not serve kubelet.
    host.remove("proc/900");
    host.write(CONFIG, OF_DOCKER);
    let dirs = "[crio.runtime]\ncdi_spec_dirs = ['/etc/cdi']\n";
    host.write("etc/crio/crio.conf", dirs);
    assert_eq!(bad(&host), ["runtime-spec-dirs"]);
}

#[test]
fn a_running_runtime_comes_before_an_installed_one() {
    let host = Host::healthy();
    host.write(CONFIG, OFF);
    assert_eq!(bad(&host), ["runtime-cdi-off"]);
    for word in ["--config ", "--config=", "-c "] {
        host.write("opt/containerd/config.toml", ON);
        host.root_process(
            800,
            "containerd",
            &format!("/opt/bin/containerd {word}/opt/containerd/config.toml"),
        );
        assert_eq!(bad(&host), [""; 0], "{word}");
        host.write("opt/containerd/config.toml", OFF);
        assert_eq!(bad(&host), ["runtime-cdi-off"], "{word}");
    }
    let subject = of(&host, "runtime-cdi-off", "subject");
    assert_eq!(subject, "containerd (/opt/containerd/config.toml)");
}

#[test]
fn a_process_of_another_user_with_a_runtimes_name_is_ignored() {
    let host = Host::healthy();
    host.write(CONFIG, ON);
    host.write("opt/containerd/config.toml", OFF);
    host.root_process(
        800,
        "containerd",
        "containerd -c /opt/containerd/config.toml",
    );
    assert_eq!(bad(&host), ["runtime-cdi-off"]);
    host.write("proc/800/status", "Uid:\t0\t1000\t0\t0\n");
    assert_eq!(bad(&host), [""; 0]);
    // Nor one of a container.
    host.write("proc/800/status", "Uid:\t0\t0\t0\t0\n");
    host.remove("proc/800/root");
    symlink("/nonexistent", host.at("proc/800/root")).unwrap();
    assert_eq!(bad(&host), [""; 0]);
}

// req: DOCTOR-12
#[test]
fn on_a_host_without_kubelet_every_runtime_is_listed_and_none_is_judged() {
    let host = Host::healthy();
    host.remove("var/lib/kubelet");
    host.write(CONFIG, OF_DOCKER);
    for program in ["dockerd", "podman", "crio"] {
        host.write(&format!("usr/bin/{program}"), "");
    }
    assert_eq!(bad(&host), [""; 0]);
    let all = report(&host);
    let findings = all.get("findings").and_then(Value::as_array).unwrap();
    let listed = findings
        .iter()
        .filter(|it| text(it, "id") == "runtime-not-judged");
    let fixes: Vec<&str> = listed.map(|it| text(it, "fix")).collect();
    let commands = [
        "`containerd --config /etc/containerd/config.toml config dump`",
        "`crio status config`",
        "`docker info`",
        "`podman --help` (--cdi-spec-dir, if supported)",
    ];
    let expected =
        commands.map(|it| format!("none needed; {it} shows the runtime's CDI spec directories"));
    assert_eq!(fixes, expected);
}

// === explicit settings ===

// req: DOCTOR-12
#[test]
fn a_setting_left_to_the_release_is_not_judged() {
    let unknown = |build: fn(&Host), expected: &str| {
        let host = Host::healthy();
        build(&host);
        assert_eq!(bad(&host), [""; 0]);
        let evidence = of(&host, "runtime-cdi-unknown", "evidence");
        assert!(evidence.contains(expected), "{evidence}");
        let fix = of(&host, "runtime-cdi-unknown", "fix");
        let question = "`crictl --runtime-endpoint unix:///run/containerd/containerd.sock info`";
        assert!(fix.contains(question), "{fix}");
    };
    unknown(
        |host| host.write(CONFIG, "version = 2\n"),
        "does not set enable_cdi, so the default of the runtime's release applies",
    );
    unknown(
        |host| host.remove("etc/containerd"),
        "the runtime has no configuration file",
    );
    unknown(
        |host| host.write(CONFIG, OFF.replace("version = 3", "version = 2")),
        "[plugins.\"io.containerd.cri.v1.runtime\"] of /etc/containerd/config.toml has no \
         effect: the file has version 2, so containerd reads \
         [plugins.\"io.containerd.grpc.v1.cri\"] instead",
    );
    unknown(
        |host| {
            let on = ON.replace(
                "version = 3\n",
                "version = 3\nimports = ['conf.d/*.toml']\n",
            );
            host.write(CONFIG, on);
            host.write("etc/containerd/conf.d/off.toml", OFF);
        },
        "/etc/containerd/config.toml and /etc/containerd/conf.d/off.toml set enable_cdi differently",
    );
    // In 1.7 a later file's table takes the place of the whole table.
    unknown(
        |host| {
            let on = ON.replace(
                "version = 3\n",
                "version = 3\nimports = ['conf.d/*.toml']\n",
            );
            host.write(CONFIG, on);
            let table = OFF.replace("enable_cdi", "x");
            host.write("etc/containerd/conf.d/table.toml", table);
        },
        "set enable_cdi differently",
    );
    unknown(
        |host| {
            host.write(
                CONFIG,
                ON.replace(
                    "version = 3\n",
                    "version = 3\nimports = ['*/a[0-9].toml']\n",
                ),
            );
        },
        "imports */a[0-9].toml, and doctor does not follow this import",
    );
    unknown(
        |host| {
            let on = ON.replace("version = 3\n", "version = 3\nimports = ['more.toml']\n");
            host.write(CONFIG, on);
            host.write("etc/containerd/more.toml", "imports = ['other.toml']\n");
        },
        "more.toml imports more files",
    );
    // A file without a table of the runtime has no effect.
    let host = Host::healthy();
    let importing = "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n";
    host.write(CONFIG, ON.replace("version = 3\n", importing));
    host.write("etc/containerd/conf.d/other.toml", "version = 3\n");
    assert!(finding(&report(&host), "runtime-cdi-unknown").is_none());
}

#[test]
fn a_release_without_cdi_is_named_whatever_its_configuration() {
    let host = Host::healthy();
    host.containerd(
        "1.6.28",
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
    );
    assert_eq!(bad(&host), ["runtime-without-cdi"]);
}

#[test]
fn a_file_that_is_not_toml_is_named_and_not_quoted() {
    let host = Host::healthy();
    host.write(CONFIG, "version = 3\npassword = s3cret\n");
    assert_eq!(bad(&host), ["runtime-config-unreadable"]);
    let text = host.out("doctor", 1);
    assert!(!text.contains("s3cret"), "{text}");
}

// === where a setting belongs ===

/// A healthy host with the containerd of a distribution, which answers that CDI is off.
fn distribution(config: &str, socket: &str, text: &str) -> Host {
    let host = Host::healthy();
    host.remove_containerd();
    host.write(config, text);
    let off = containerd_config(&json!({"enableCDI": false, "cdiSpecDirs": dirs()}));
    serve(&host.at(socket), Runtime::Containerd("v2.1.3", off));
    host
}

#[test]
fn a_fix_names_the_file_that_survives_the_next_start() {
    let k3s = "var/lib/rancher/k3s/agent/etc/containerd";
    let rke2 = "var/lib/rancher/rke2/agent/etc/containerd";
    let socket = "run/k3s/containerd/containerd.sock";
    let fix = |host: &Host| of(host, "runtime-cdi-off", "fix");
    let of_3 = "[plugins.\"io.containerd.cri.v1.runtime\"]";
    let of_2 = "[plugins.\"io.containerd.grpc.v1.cri\"]";

    let host = distribution(&format!("{k3s}/config.toml"), socket, OFF_IN_2);
    let new =
        "(create it as a copy of config.toml in the same directory), and restart k3s or k3s-agent";
    let expected = format!("set enable_cdi = true in {of_2} of /{k3s}/config.toml.tmpl {new}");
    assert_eq!(fix(&host), expected);
    host.write("etc/systemd/system/k3s-agent.service", "[Unit]\n");
    host.write(&format!("{k3s}/config.toml.tmpl"), OFF_IN_2);
    let made = ", from which k3s generates the configuration, and restart k3s-agent";
    assert_eq!(
        fix(&host),
        format!("set enable_cdi = true in {of_2} of /{k3s}/config.toml.tmpl{made}")
    );

    // Newer ones import drop-ins.
    let imports = format!("version = 3\nimports = ['/{rke2}/config-v3.toml.d/*.toml']\n");
    let host = distribution(&format!("{rke2}/config.toml"), socket, &imports);
    host.write("etc/systemd/system/rke2-server.service", "[Unit]\n");
    let drop_in = format!("/{rke2}/config-v3.toml.d/cdi.toml (create it), and restart rke2-server");
    assert_eq!(
        fix(&host),
        format!("set enable_cdi = true in {of_3} of {drop_in}")
    );
    host.write(&format!("{rke2}/config-v3.toml.d/50-off.toml"), OFF);
    let drop_in = format!("/{rke2}/config-v3.toml.d/50-off.toml, and restart rke2-server");
    assert_eq!(
        fix(&host),
        format!("set enable_cdi = true in {of_3} of {drop_in}")
    );

    let args = "var/snap/microk8s/current/args";
    let socket = "var/snap/microk8s/common/run/containerd.sock";
    let host = distribution(&format!("{args}/containerd.toml"), socket, OFF);
    let template = "containerd-template.toml, from which MicroK8s generates the configuration, and run `snap restart microk8s`";
    assert_eq!(
        fix(&host),
        format!("set enable_cdi = true in {of_3} of /{args}/{template}")
    );

    let host = distribution(
        "nix/store/abc-containerd.toml",
        "run/containerd/containerd.sock",
        OFF_IN_2,
    );
    host.root_process(
        800,
        "containerd",
        "containerd --config /nix/store/abc-containerd.toml",
    );
    let nix = "the NixOS configuration (virtualisation.containerd.settings), and run `nixos-rebuild switch`";
    assert_eq!(
        fix(&host),
        format!("set enable_cdi = true in {of_2} of {nix}")
    );

    // A file that only people write.
    let host = distribution(
        "etc/containerd/config.toml",
        "run/containerd/containerd.sock",
        OFF,
    );
    assert_eq!(
        fix(&host),
        format!("set enable_cdi = true in {of_3} of /{CONFIG}, and restart containerd")
    );
    fs::remove_file(host.at(CONFIG)).unwrap();
    host.write("usr/bin/containerd", "");
    let new = "(create the file, with `version = 2` as its first line), and restart containerd";
    assert_eq!(
        fix(&host),
        format!("set enable_cdi = true in {of_2} of /{CONFIG} {new}")
    );
}

#[test]
fn of_several_files_the_fix_names_the_one_that_decides() {
    let off = json!({"enableCDI": false, "cdiSpecDirs": dirs()});
    let one = json!({"enableCDI": true, "cdiSpecDirs": ["/etc/cdi"]});
    let importing = |text: &str| {
        let imports = "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n";
        text.replace("version = 3\n", imports)
    };
    let drop_in = "etc/containerd/conf.d/99-nvidia.toml";
    let host = |main: &str, other: &str, answer: &Value| {
        let host = Host::healthy();
        host.write(CONFIG, importing(main));
        host.write(drop_in, other);
        host.containerd_answers("v1.7.28", answer);
        host
    };
    let dirs_of = |text: &str| text.replace("enable_cdi = true", "cdi_spec_dirs = ['/etc/cdi']");
    for (main, other, answer, id, file) in [
        (ON, OFF.to_owned(), &off, "runtime-cdi-off", drop_in),
        (OFF, ON.to_owned(), &off, "runtime-cdi-off", CONFIG),
        // In 1.7 a later table takes the place of the whole table.
        (
            ON,
            OFF.replace("enable_cdi", "x"),
            &off,
            "runtime-cdi-off",
            drop_in,
        ),
        (ON, dirs_of(ON), &one, "runtime-spec-dirs", drop_in),
    ] {
        let fix = of(&host(main, &other, answer), id, "fix");
        assert!(
            fix.contains(&format!("of /{file}, ")),
            "{main}{other}: {fix}"
        );
    }
    // Of CRI-O's files, too.
    let crio = |change: &dyn Fn(&Host)| {
        let host = Host::healthy();
        host.root_process(
            900,
            "kubelet",
            "kubelet --container-runtime-endpoint=/run/crio/crio.sock",
        );
        change(&host);
        let config = "[crio.runtime]\ncdi_spec_dirs = ['/etc/cdi']\n";
        host.answers(Runtime::CriO("1.34.1", config));
        of(&host, "runtime-spec-dirs", "fix")
    };
    let fix = crio(&|host| {
        let both = "[crio.runtime]\ncdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']\n";
        host.write("etc/crio/crio.conf.d/00-default", both);
        let one = "[crio.runtime]\ncdi_spec_dirs = ['/etc/cdi']\n";
        host.write("etc/crio/crio.conf.d/99-site.conf", one);
    });
    assert!(fix.contains("/etc/crio/crio.conf.d/99-site.conf"), "{fix}");
    // An option takes the place of all files.
    let fix =
        crio(&|host| host.root_process(801, "crio", "/usr/bin/crio --cdi-spec-dirs=/etc/cdi"));
    assert!(
        fix.contains("of crio's command line (--cdi-spec-dirs)"),
        "{fix}"
    );
}

#[test]
fn leftovers_of_a_migration_are_not_blamed_if_the_setting_is_in_place() {
    let left = "[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n";
    let off = json!({"enableCDI": false, "cdiSpecDirs": dirs()});
    let fix = |config: &str| {
        let host = Host::healthy();
        host.write(CONFIG, config);
        host.containerd_answers("v2.1.3", &off);
        of(&host, "runtime-cdi-off", "fix")
    };
    let set = "set enable_cdi = true in [plugins.\"io.containerd.cri.v1.runtime\"]";
    assert!(fix(&format!("{OFF}{left}")).starts_with(set));
    let moved = "move the settings of [plugins.\"io.containerd.grpc.v1.cri\"]";
    assert!(fix(&format!("version = 3\n{left}")).starts_with(moved));
}

#[test]
fn for_a_corrected_file_the_fix_is_a_restart() {
    let host = Host::healthy();
    host.write(CONFIG, ON);
    host.containerd_answers(
        "v1.7.28",
        &json!({"enableCDI": false, "cdiSpecDirs": dirs()}),
    );
    let fix = format!("restart containerd: /{CONFIG} already has enable_cdi = true");
    assert_eq!(of(&host, "runtime-cdi-off", "fix"), fix);
}

#[test]
fn the_fix_names_the_system_that_writes_the_file() {
    for (id, by) in [
        (
            "bottlerocket",
            "through the settings API: Bottlerocket writes the file",
        ),
        (
            "\"talos\"",
            "through the machine config: Talos writes the file",
        ),
    ] {
        let host = Host::healthy();
        host.write("etc/os-release", format!("NAME=x\nID={id}\n"));
        host.write(CONFIG, OFF);
        let fix = of(&host, "runtime-cdi-off", "fix");
        assert!(
            fix.contains(&format!("of /{CONFIG} ({by}), and restart")),
            "{fix}"
        );
    }
    let host = Host::healthy();
    host.write("usr/bin/nodeadm", "");
    host.write(CONFIG, OFF);
    let fix = of(&host, "runtime-cdi-off", "fix");
    let by = "(through containerd.config in the NodeConfig: nodeadm writes the file at each boot)";
    assert!(fix.contains(by), "{fix}");
    // k0s does not change files that it did not write.
    let host = distribution("etc/k0s/containerd.toml", "run/k0s/containerd.sock", OFF);
    let fix = of(&host, "runtime-cdi-off", "fix");
    assert!(
        fix.contains("of /etc/k0s/containerd.toml, and restart containerd"),
        "{fix}"
    );
    // A template of k3s that NixOS has put there.
    let k3s = "var/lib/rancher/k3s/agent/etc/containerd";
    let socket = "run/k3s/containerd/containerd.sock";
    let host = distribution(&format!("{k3s}/config.toml"), socket, OFF);
    host.write("nix/store/abc-config.toml.tmpl", OFF);
    let link = host.at(&format!("{k3s}/config-v3.toml.tmpl"));
    symlink("/nix/store/abc-config.toml.tmpl", link).unwrap();
    let fix = of(&host, "runtime-cdi-off", "fix");
    assert!(
        fix.contains("the NixOS configuration (services.k3s.containerdConfigTemplate)"),
        "{fix}"
    );
}
