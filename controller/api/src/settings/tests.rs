use super::*;

const GATE: &str = "HostManagedIMEX=true";
const ALIAS: &str = "HostManagedIMEXDaemon=true";
const OFF: &str = "HostManagedIMEX=false";

/// Mode and isolation, or the error's code.
fn resolve(feature_gates: &str, mode: &str, isolation: &str) -> String {
    match (ImexOptions {
        feature_gates,
        mode,
        isolation,
        host_socket_path: "",
    })
    .resolve()
    {
        Ok(settings) => format!("{} {}", settings.mode, settings.isolation),
        Err(err) => err.code().to_owned(),
    }
}

/// The table of modes. The chart checks its values by the same rules.
#[test]
fn gate_mode_and_isolation_resolve_as_in_the_table() {
    let table = [
        // gates, mode, isolation, result
        (GATE, "", "", "hostManaged none"),
        (GATE, "hostManaged", "", "hostManaged none"),
        (ALIAS, "", "none", "hostManaged none"),
        (GATE, "hostManaged", "domain", "hostManaged none"),
        (GATE, "", "channel", "channel-isolation-not-built"),
        (GATE, "", "foo", "unknown-imex-isolation"),
        (GATE, "driverManaged", "", "driver-managed-not-built"),
        (GATE, "foo", "channel", "unknown-imex-mode"),
        ("", "hostManaged", "", "imex-mode-needs-gate"),
        (OFF, "hostManaged", "channel", "imex-mode-needs-gate"),
        ("", "", "", "driver-managed-not-built"),
        (OFF, "", "channel", "driver-managed-not-built"),
        ("", "driverManaged", "domain", "driver-managed-not-built"),
        ("", "foo", "", "unknown-imex-mode"),
        ("", "HostManaged", "", "unknown-imex-mode"),
        (
            "HostManagedIMEX=true,HostManagedIMEXDaemon=false",
            "",
            "",
            "contradicting-feature-gates",
        ),
        ("Bogus=true", "foo", "foo", "unknown-feature-gate"),
        // The forced gates are off before the gates are checked against each other.
        (
            "HostManagedIMEX=true,IMEXDaemonsWithDNSNames=false",
            "",
            "",
            "hostManaged none",
        ),
        (
            "HostManagedIMEX=true,ComputeDomainCliques=true",
            "",
            "",
            "hostManaged none",
        ),
        (
            "HostManagedIMEX=true,DynamicMIG=true,MPSSupport=true",
            "",
            "",
            "incompatible-feature-gates",
        ),
    ];
    for (gates, mode, isolation, expected) in table {
        assert_eq!(
            resolve(gates, mode, isolation),
            expected,
            "{gates:?} {mode:?} {isolation:?}"
        );
    }
}

#[test]
fn both_gates_of_daemons_are_forced_off_and_each_change_is_reported() {
    let settings = ImexOptions {
        feature_gates: GATE,
        ..Default::default()
    }
    .resolve()
    .unwrap();
    let forced: Vec<_> = settings
        .forced
        .iter()
        .map(|forced| (forced.gate, forced.value))
        .collect();
    assert_eq!(
        forced,
        [
            (Gate::IMEXDaemonsWithDNSNames, false),
            (Gate::ComputeDomainCliques, false)
        ]
    );
    assert!(!settings.gates.enabled(Gate::IMEXDaemonsWithDNSNames));
    assert!(!settings.gates.enabled(Gate::ComputeDomainCliques));
}

#[test]
fn a_gate_that_was_off_already_is_not_reported_as_forced() {
    let feature_gates =
        "HostManagedIMEX=true,IMEXDaemonsWithDNSNames=false,ComputeDomainCliques=false";
    let settings = ImexOptions {
        feature_gates,
        ..Default::default()
    }
    .resolve()
    .unwrap();
    assert_eq!(settings.forced, []);
}

#[test]
fn isolation_domain_warns_that_it_isolates_nothing() {
    let options = ImexOptions {
        feature_gates: GATE,
        isolation: "domain",
        ..Default::default()
    };
    assert_eq!(
        options.resolve().unwrap().warnings,
        [SettingsWarning::IsolationDomain]
    );
}

#[test]
fn the_host_socket_is_optional_and_must_be_absolute() {
    let options = ImexOptions {
        feature_gates: GATE,
        ..Default::default()
    };
    assert_eq!(options.resolve().unwrap().host_socket_path, None);

    let host_socket_path = "/etc/nvidia-imex/imex_ctrl.sock";
    let settings = ImexOptions {
        host_socket_path,
        ..options
    }
    .resolve()
    .unwrap();
    assert_eq!(
        settings.host_socket_path,
        Some(PathBuf::from(host_socket_path))
    );

    let err = ImexOptions {
        host_socket_path: "imex.sock",
        ..options
    }
    .resolve()
    .unwrap_err();
    assert_eq!(err.code(), "relative-imex-socket-path");
}

#[test]
fn every_error_is_one_line_and_says_what_to_set_in_the_chart_and_on_the_process() {
    for (gates, mode, isolation, chart, flag, env) in [
        (
            "",
            "",
            "",
            "featureGates.HostManagedIMEX=true",
            "--feature-gates",
            "FEATURE_GATES",
        ),
        (
            "",
            "hostManaged",
            "",
            "featureGates.HostManagedIMEX=true",
            "--feature-gates",
            "FEATURE_GATES",
        ),
        (
            "",
            "foo",
            "",
            "resources.computeDomains.imex.mode",
            "--imex-mode",
            "IMEX_MODE",
        ),
        (
            GATE,
            "",
            "channel",
            "resources.computeDomains.imex.isolation",
            "--imex-isolation",
            "IMEX_ISOLATION",
        ),
        (
            "Bogus=1",
            "",
            "",
            "featureGates",
            "--feature-gates",
            "FEATURE_GATES",
        ),
    ] {
        let options = ImexOptions {
            feature_gates: gates,
            mode,
            isolation,
            host_socket_path: "",
        };
        let err = options.resolve().unwrap_err();
        let line = format!("{err}; {}", err.hint());
        for part in [chart, flag, env] {
            assert!(line.contains(part), "{line:?} lacks {part}");
        }
        assert!(!line.contains('\n'), "{line:?}");
    }
}
