//! Runtimes as facts made by hand.

use std::sync::Arc;

use imex_cdi::Spec;

use super::*;
use crate::facts::runtimes::model::{ContainerdFacts, DefaultHandler};
use crate::facts::specs::SpecFileFacts;

fn containerd() -> Runtime {
    Runtime {
        kind: RuntimeKind::Containerd,
        version: Some("2.1.3".to_owned()),
        cdi: CdiSupport::On,
        spec_dirs: None,
        config: Some("/etc/containerd/config.toml".to_owned()),
        config_error: None,
        cannot_start: false,
        runs_pods: true,
        default_handler: None,
        containerd: ContainerdFacts::default(),
    }
}

fn check_all(
    runtimes: Vec<Runtime>,
    demand: Demand,
    specs: &SpecFacts,
) -> Vec<(&'static str, Severity)> {
    let facts = RuntimeFacts {
        runtimes,
        spec_dirs: vec!["/etc/cdi".to_owned(), "/var/run/cdi".to_owned()],
        has_kubelet: demand != Demand::People,
        ..RuntimeFacts::default()
    };
    let needed = ["/etc/cdi", "/var/run/cdi"];
    let found = check(&facts, specs, demand, &needed).findings;
    found.into_iter().map(|it| (it.id, it.severity)).collect()
}

fn check_one(runtime: Runtime) -> Vec<(&'static str, Severity)> {
    check_all(vec![runtime], Demand::Claims, &SpecFacts::default())
}

#[test]
fn a_runtime_of_pods_without_cdi_is_an_error() {
    assert_eq!(check_one(containerd()), []);
    let off = Runtime {
        cdi: CdiSupport::Off,
        ..containerd()
    };
    assert_eq!(check_one(off), [("runtime-cdi-off", Severity::Error)]);
    let beside = Runtime {
        cdi: CdiSupport::Off,
        runs_pods: false,
        ..containerd()
    };
    assert_eq!(check_one(beside), [("runtime-cdi-off", Severity::Info)]);
    let unknown = Runtime {
        cdi: CdiSupport::Unknown,
        ..containerd()
    };
    assert_eq!(
        check_one(unknown),
        [("runtime-cdi-unknown", Severity::Info)]
    );
}

#[test]
fn an_old_release_is_all_that_is_said_of_it() {
    let old = Runtime {
        version: Some("1.6.28".to_owned()),
        cdi: CdiSupport::Off,
        ..containerd()
    };
    assert_eq!(check_one(old), [("runtime-without-cdi", Severity::Error)]);
}

#[test]
fn run_is_the_same_directory_as_var_run() {
    let dirs = |dirs: [&str; 2]| Runtime {
        spec_dirs: Some(dirs.map(str::to_owned).to_vec()),
        ..containerd()
    };
    assert_eq!(check_one(dirs(["/etc/cdi", "/run/cdi/"])), []);
    let elsewhere = check_one(dirs(["/etc/cdi", "/opt/cdi"]));
    assert_eq!(elsewhere, [("runtime-spec-dirs", Severity::Error)]);
}

fn docker() -> Runtime {
    Runtime {
        kind: RuntimeKind::Docker,
        version: Some("28.5.1".to_owned()),
        config: Some("/etc/docker/daemon.json".to_owned()),
        runs_pods: false,
        ..containerd()
    }
}

/// A valid spec at `path`.
fn spec_at(path: &str) -> SpecFacts {
    let spec = serde_json::json!({
        "cdiVersion": "0.5.0",
        "kind": "example.com/thing",
        "devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}],
    });
    let spec = Spec::parse(spec.to_string().as_bytes()).unwrap();
    SpecFacts {
        files: vec![SpecFileFacts {
            path: path.to_owned(),
            spec: Ok(Arc::new(spec)),
            nodes: vec![],
            is_shadowed: false,
            missing_paths: vec![],
        }],
        ..SpecFacts::default()
    }
}

#[test]
fn without_kubelet_what_people_use_has_to_give_the_devices() {
    let specs = spec_at("/etc/cdi/a.json");
    let people = |runtimes| check_all(runtimes, Demand::People, &specs);
    let off = Runtime {
        cdi: CdiSupport::Off,
        ..docker()
    };
    let no_specs = SpecFacts::default();
    let unused = check_all(vec![off.clone()], Demand::People, &no_specs);
    assert_eq!(unused, [("runtime-cdi-off", Severity::Info)]);
    let alone = people(vec![off.clone()]);
    assert_eq!(alone, [("runtime-cdi-off", Severity::Warning)]);
    let podman = Runtime {
        kind: RuntimeKind::Podman,
        ..docker()
    };
    let beside_podman = people(vec![off.clone(), podman]);
    assert_eq!(beside_podman, [("runtime-cdi-off", Severity::Info)]);
    let on_a_node = check_all(vec![containerd(), off], Demand::Pods, &specs);
    assert_eq!(on_a_node, [("runtime-cdi-off", Severity::Info)]);
}

#[test]
fn people_need_one_directory_with_specs_and_kubelet_all() {
    let only = |dir: &str| Runtime {
        spec_dirs: Some(vec![dir.to_owned()]),
        ..docker()
    };
    let specs = spec_at("/run/cdi/a.json");
    let people = |runtime| check_all(vec![runtime], Demand::People, &specs);
    let id = "runtime-spec-dirs";
    assert_eq!(people(only("/etc/cdi")), [(id, Severity::Error)]);
    assert_eq!(people(only("/var/run/cdi")), [(id, Severity::Info)]);
}

#[test]
fn a_runtime_that_does_not_start_is_an_error_for_who_uses_it() {
    let broken = Runtime {
        config_error: Some("no JSON".to_owned()),
        cannot_start: true,
        ..docker()
    };
    let specs = SpecFacts::default();
    let found = |demand| check_all(vec![broken.clone()], demand, &specs);
    let id = "runtime-config-unreadable";
    assert_eq!(found(Demand::People), [(id, Severity::Error)]);
    assert_eq!(found(Demand::Pods), [(id, Severity::Info)]);
}

#[test]
fn dockers_own_containerd_is_asked_for_no_devices() {
    let own = Runtime {
        cdi: CdiSupport::Off,
        runs_pods: false,
        containerd: ContainerdFacts {
            disabled: Some(DisabledCri {
                file: "/etc/containerd/config.toml".to_owned(),
                line: 1,
                name: "cri".to_owned(),
            }),
            ..ContainerdFacts::default()
        },
        ..containerd()
    };
    let specs = spec_at("/etc/cdi/a.json");
    let found = check_all(vec![own, docker()], Demand::People, &specs);
    assert_eq!(found, []);
}

#[test]
fn the_default_handlers_program_has_to_be_there_as_far_as_is_known() {
    let with = |exists| Runtime {
        default_handler: Some(DefaultHandler::Program {
            name: "nvidia".to_owned(),
            program: "/usr/local/nvidia/toolkit/nvidia-container-runtime".to_owned(),
            file: "/etc/containerd/config.toml".to_owned(),
            setting: "BinaryName".to_owned(),
            exists,
        }),
        ..containerd()
    };
    assert_eq!(check_one(with(Some(true))), []);
    assert_eq!(check_one(with(None)), []);
    let gone = check_one(with(Some(false)));
    assert_eq!(gone, [("runtime-handler-missing", Severity::Error)]);
}
