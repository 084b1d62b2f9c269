//! Tests with hand-made facts about runtimes. Tests of `cdi-gen doctor` cover how hosts give
//! these facts.

use super::*;

const DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

fn settings(support: CdiSupport, dirs: Option<[&str; 2]>) -> CdiSettings {
    CdiSettings {
        support,
        spec_dirs: dirs.map(|dirs| dirs.map(str::to_owned).to_vec()),
        default_handler: None,
    }
}

fn findings(settings: Settings, wants_cdi: bool) -> Vec<Finding> {
    let edit = Edit {
        file: "/etc/containerd/config.toml".to_owned(),
        table: "plugins.cri".to_owned(),
        note: String::new(),
        misplaced: None,
        is_set: false,
        apply: String::new(),
    };
    let facts = RuntimeFacts {
        of_kubelet: Some(KubeletRuntime {
            runtime: Runtime {
                kind: RuntimeKind::Containerd,
                version: Some("2.1.3".to_owned()),
                config: None,
            },
            socket: "/run/containerd/containerd.sock".to_owned(),
            settings,
            edit: Some(edit),
        }),
        spec_dirs: DIRS.map(str::to_owned).to_vec(),
        has_kubelet: true,
        ..RuntimeFacts::default()
    };
    check(&facts, wants_cdi, &DIRS).findings
}

fn found(settings: Settings, wants_cdi: bool) -> Vec<(&'static str, Severity)> {
    let found = findings(settings, wants_cdi);
    found.into_iter().map(|it| (it.id, it.severity)).collect()
}

#[test]
fn a_runtime_without_cdi_is_an_error_if_something_gives_devices_by_cdi() {
    for (support, id) in [
        (CdiSupport::Off, "runtime-cdi-off"),
        (CdiSupport::Absent, "runtime-without-cdi"),
    ] {
        let settings = Settings::FromRuntime(settings(support, None));
        assert_eq!(found(settings.clone(), true), [(id, Severity::Error)]);
        assert_eq!(found(settings, false), [(id, Severity::Info)]);
    }
    let unknown = settings(CdiSupport::Unknown("why".to_owned()), None);
    let expected = [("runtime-cdi-unknown", Severity::Info)];
    assert_eq!(found(Settings::ConfigFiles(unknown), true), expected);
    let on = settings(CdiSupport::On, None);
    assert_eq!(found(Settings::ConfigFiles(on), true), []);
}

#[test]
fn run_is_the_same_directory_as_var_run() {
    let with = |support, dirs| found(Settings::FromRuntime(settings(support, Some(dirs))), true);
    assert_eq!(with(CdiSupport::On, ["/etc/cdi", "/run/cdi/"]), []);
    let elsewhere = with(CdiSupport::On, ["/etc/cdi", "/opt/cdi"]);
    assert_eq!(elsewhere, [("runtime-spec-dirs", Severity::Error)]);
    // A runtime without CDI has no finding about directories.
    let off = with(CdiSupport::Off, ["/etc/cdi", "/opt/cdi"]);
    assert_eq!(off, [("runtime-cdi-off", Severity::Error)]);
}

#[test]
fn evidence_about_a_malformed_file_is_redacted() {
    let found = findings(Settings::Malformed("secret".to_owned()), false);
    assert_eq!(found[0].id, "runtime-config-unreadable");
    assert_eq!(found[0].evidence, "secret");
    assert!(!found[0].redacted().evidence.contains("secret"));
}
