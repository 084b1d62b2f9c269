//! Tests with hand-made facts about specs.

use std::sync::Arc;

use serde_json::json;

use crate::error_facts::ErrorFacts;
use crate::facts::runtimes::model::{CdiSettings, CdiSupport, RuntimeKind};
use crate::spec_paths::MissingPath;

use super::*;

fn file(version: &str, nodes: Vec<NodeReport>) -> SpecFileFacts {
    let spec = json!({
        "cdiVersion": version,
        "kind": "example.com/thing",
        "devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}],
    });
    let spec = Spec::parse(spec.to_string().as_bytes()).unwrap();
    SpecFileFacts {
        path: "/etc/cdi/a.json".to_owned(),
        spec: Ok(Arc::new(spec)),
        nodes,
        is_shadowed: false,
        missing_paths: vec![],
    }
}

fn node(state: NodeState, channel: Option<i64>) -> NodeReport {
    NodeReport {
        path: "/dev/x".to_owned(),
        host_path: "/dev/x".to_owned(),
        declared: None,
        found: None,
        channel,
        state,
        message: state.is_bad().then(|| "it is bad".to_owned()),
        fix: state.is_bad().then_some("write it with `cdi-gen generate`"),
    }
}

/// containerd serves kubelet.
fn containerd(version: &str, support: CdiSupport) -> RuntimeFacts {
    let settings = CdiSettings {
        support,
        spec_dirs: None,
        default_handler: None,
    };
    RuntimeFacts {
        of_kubelet: Some(KubeletRuntime {
            runtime: Runtime {
                kind: RuntimeKind::Containerd,
                version: Some(version.to_owned()),
                config: None,
            },
            socket: "/run/containerd/containerd.sock".to_owned(),
            settings: Settings::FromRuntime(settings),
            edit: None,
        }),
        ..RuntimeFacts::default()
    }
}

fn findings(facts: &SpecFacts, runtimes: &RuntimeFacts) -> Vec<Finding> {
    let context = Context {
        runtimes,
        channel_count: Some(4),
        driver_version: Some("570.195.03"),
    };
    check(facts, context, &Invocation::default()).findings
}

fn facts(file: SpecFileFacts) -> SpecFacts {
    SpecFacts {
        files: vec![file],
        ..SpecFacts::default()
    }
}

#[test]
fn a_version_that_the_runtime_does_not_load_is_an_error() {
    let runtimes = containerd("1.7.0", CdiSupport::On);
    let found = findings(&facts(file("0.6.0", vec![])), &runtimes);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id, "cdi-spec-too-new");
    assert!(
        found[0].fix.starts_with("set cdiVersion to 0.3.0"),
        "{}",
        found[0].fix
    );
    assert_eq!(findings(&facts(file("0.5.0", vec![])), &runtimes), []);
    let off = containerd("1.7.0", CdiSupport::Off);
    let found = findings(&facts(file("0.6.0", vec![])), &off);
    assert_eq!(found[0].severity, Severity::Info);
    let newer = containerd("1.7.28", CdiSupport::On);
    assert_eq!(findings(&facts(file("0.6.0", vec![])), &newer), []);
}

#[test]
fn nodes_with_one_fix_are_one_finding_with_the_command_of_this_run() {
    let nodes = [NodeState::Stale, NodeState::Agrees, NodeState::Stale];
    let nodes = nodes.map(|state| node(state, None)).to_vec();
    let facts = facts(file("0.5.0", nodes));
    let invocation = Invocation::new("/host", crate::options::Options::default());
    let context = Context {
        runtimes: &RuntimeFacts::default(),
        channel_count: None,
        driver_version: None,
    };
    let found = check(&facts, context, &invocation).findings;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id, "cdi-spec-stale-major");
    assert_eq!(found[0].evidence, "it is bad (and 1 more like it)");
    assert_eq!(
        found[0].fix,
        "write it with `cdi-gen generate --root /host`"
    );
}

#[test]
fn a_channel_must_be_below_the_drivers_count() {
    let channels = [3, 4, 5].map(|channel| node(NodeState::Agrees, Some(channel)));
    let found = findings(
        &facts(file("0.5.0", channels.to_vec())),
        &RuntimeFacts::default(),
    );
    assert_eq!(found.len(), 1);
    assert!(
        found[0]
            .evidence
            .starts_with("/dev/x is channel 4 (and 1 more")
    );
}

#[test]
fn evidence_that_quotes_an_invalid_file_is_redacted() {
    let mut invalid = file("0.5.0", vec![]);
    invalid.spec = Err(ErrorFacts {
        code: "cdi-syntax",
        message: "secret".to_owned(),
        hint: "correct it".to_owned(),
    });
    let found = findings(&facts(invalid), &RuntimeFacts::default());
    assert_eq!(found[0].id, "cdi-syntax");
    assert!(!found[0].redacted().evidence.contains("secret"));
}

#[test]
fn paths_that_an_update_removed_are_one_finding_per_file() {
    let missing = |path: &str| MissingPath {
        path: path.to_owned(),
        is_hook: false,
    };
    let file = SpecFileFacts {
        missing_paths: vec![
            missing("/usr/lib/libcuda.so.570.172.08"),
            missing("/usr/lib/libnvidia-ml.so.570.172.08"),
        ],
        ..file("0.5.0", vec![])
    };
    let found = findings(&facts(file), &RuntimeFacts::default());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id, "cdi-spec-path-missing");
    let evidence = &found[0].evidence;
    assert!(
        evidence.contains("libcuda.so.570.172.08, which does not exist on the host"),
        "{evidence}"
    );
    assert!(evidence.contains("(and 1 more like it)"), "{evidence}");
    assert!(
        evidence.ends_with("driver 570.172.08, but 570.195.03 is loaded"),
        "{evidence}"
    );
}

#[test]
fn a_kind_that_crashes_runtimes_is_an_error_if_a_runtime_loads_it() {
    let text = r#"{"cdiVersion": "0.5.0", "kind": "a.com/b",
        "devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}]}"#;
    let spec = Spec::parse(text.as_bytes()).unwrap();
    let file = SpecFileFacts {
        spec: Ok(Arc::new(spec)),
        ..file("0.5.0", vec![])
    };
    let facts = facts(file);
    let severity = |runtimes: &RuntimeFacts| {
        let found = findings(&facts, runtimes);
        let ids: Vec<&str> = found.iter().map(|it| it.id).collect();
        assert_eq!(ids, [OneLetterKind::CODE]);
        found[0].severity
    };
    assert_eq!(severity(&RuntimeFacts::default()), Severity::Warning);
    let on = containerd("2.1.5", CdiSupport::On);
    assert_eq!(severity(&on), Severity::Error);
    let off = containerd("1.7.28", CdiSupport::Off);
    assert_eq!(severity(&off), Severity::Warning);
    let docker = RuntimeFacts {
        others: vec![Runtime {
            kind: RuntimeKind::Docker,
            version: None,
            config: None,
        }],
        ..off
    };
    assert_eq!(severity(&docker), Severity::Error);
}

#[test]
fn a_library_has_the_drivers_version_or_one_of_its_own() {
    for (path, version) in [
        ("/usr/lib/libcuda.so.570.172.08", Some("570.172.08")),
        ("/usr/lib/libcuda.so.1", None),
        ("/usr/lib/libnvidia-egl-gbm.so.1.1.2", None),
        ("/usr/bin/nvidia-smi", None),
    ] {
        assert_eq!(library_version(path), version, "{path}");
    }
}
