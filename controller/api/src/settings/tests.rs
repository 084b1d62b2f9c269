use super::*;

// tests/modes has the table of gates, mode and isolation.

const GATE: &str = "HostManagedIMEX=true";

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

// req: MODE-16
#[test]
fn a_host_socket_is_rejected_in_driver_managed_mode() {
    let options = ImexOptions {
        host_socket_path: "/etc/nvidia-imex/imex_ctrl.sock",
        ..ImexOptions::default()
    };
    let err = options.resolve().unwrap_err();
    assert_eq!(err.code(), "driver-managed-host-socket");
    let line = format!("{err}; {}", err.hint());
    for part in [
        "driverManaged",
        "imex.hostSocketPath \"/etc/nvidia-imex/imex_ctrl.sock\"",
        "IMEX_HOST_SOCKET_PATH",
    ] {
        assert!(line.contains(part), "{line:?} lacks {part}");
    }
}

#[test]
fn faulty_nodes_are_published_unless_the_option_for_the_fault_is_taint() {
    let options = ImexOptions {
        feature_gates: GATE,
        ..ImexOptions::default()
    };
    let placed = |without_clique, degraded_fabric| {
        let settings = ImexOptions {
            without_clique,
            degraded_fabric,
            ..options
        }
        .resolve();
        let settings = settings.map_err(|err| format!("{}: {}", err.code(), err.hint()))?;
        Ok((settings.without_clique, settings.degraded_fabric))
    };
    let (publish, taint) = (Placement::Publish, Placement::Taint);
    assert_eq!(placed("", ""), Ok((publish, publish)), "without isolation");
    assert_eq!(placed("publish", "publish"), Ok((publish, publish)));
    assert_eq!(placed("taint", ""), Ok((taint, publish)));
    assert_eq!(placed("", "taint"), Ok((publish, taint)));
    let refused: String = placed("Taint", "").unwrap_err();
    assert!(
        refused.starts_with("unknown-imex-without-clique: ")
            && refused.contains("IMEX_WITHOUT_CLIQUE"),
        "{refused}"
    );
    let refused: String = placed("", "withdraw").unwrap_err();
    assert!(
        refused.starts_with("unknown-imex-degraded-fabric: ")
            && refused.contains("IMEX_DEGRADED_FABRIC"),
        "{refused}"
    );
}

#[test]
fn every_error_is_one_line_and_names_the_chart_value_and_the_flag() {
    for (gates, mode, isolation, chart, flag, env) in [
        (
            GATE,
            "driverManaged",
            "",
            "featureGates.HostManagedIMEX",
            "--feature-gates",
            "FEATURE_GATES",
        ),
        (
            "",
            "",
            "none",
            "resources.computeDomains.imex.isolation",
            "--imex-isolation",
            "IMEX_ISOLATION",
        ),
        (
            "ComputeDomainCliques=false",
            "",
            "",
            "featureGates.ComputeDomainCliques",
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
            "foo",
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
            ..ImexOptions::default()
        };
        let err = options.resolve().unwrap_err();
        let line = format!("{err}; {}", err.hint());
        for part in [chart, flag, env] {
            assert!(line.contains(part), "{line:?} lacks {part}");
        }
        assert!(!line.contains('\n'), "{line:?}");
    }
}

// req: CHANNEL-19
#[test]
fn channels_of_groups_and_domains_are_disjoint() {
    let channels = |group_claims, channel_count, isolation| {
        let settings = ImexOptions {
            feature_gates: GATE,
            group_claims,
            channel_count,
            isolation,
            ..ImexOptions::default()
        }
        .resolve();
        let settings = settings.map_err(|err| err.code())?;
        Ok((settings.group_channels(), settings.domain_channels()))
    };
    let nothing = std::ops::RangeInclusive::new(1, 0);
    assert_eq!(channels("", "", ""), Ok((nothing.clone(), 1..=2047)));
    assert_eq!(channels("true", "", "channel"), Ok((1..=127, 128..=2047)));
    assert_eq!(channels("true", "129", "channel"), Ok((1..=127, 128..=128)));
    assert_eq!(channels("false", "128", "channel"), Ok((nothing, 1..=127)));
    let none_left = Err("no-imex-channels-for-domains");
    assert_eq!(channels("true", "128", "channel"), none_left);
    let (groups, _) = channels("true", "64", "none").unwrap();
    assert_eq!(groups, 1..=63, "only what the nodes have");
}
