use super::*;

fn parse(text: &str) -> FeatureGates {
    text.parse().unwrap()
}

fn parse_error(text: &str) -> GateError {
    text.parse::<FeatureGates>().unwrap_err()
}

#[test]
fn every_gate_is_found_by_its_name() {
    for gate in Gate::ALL {
        assert_eq!(Gate::from_name(gate.name()), Some(gate));
    }
    assert!(Gate::ALL.is_sorted_by_key(|gate| gate.name()));
}

// req: MODE-5
#[test]
fn the_string_that_the_go_controller_passes_on_is_accepted() {
    let go = "AllAlpha=false,AllBeta=false,ComputeDomainCliques=true,ConsumableShares=false,\
        ContextualLogging=true,CrashOnNVLinkFabricErrors=true,DRAListTypeAttributes=false,\
        DeviceMetadata=false,DynamicMIG=false,FabricManagerPartitioning=false,\
        HostManagedIMEXDaemon=false,IMEXDaemonsWithDNSNames=true,LoggingAlphaOptions=false,\
        LoggingBetaOptions=true,MPSSupport=false,NVMLDeviceHealthCheck=false,\
        PassthroughSupport=false,TimeSlicingSettings=false,";
    let gates = parse(go);
    gates.validate().unwrap();
    for gate in Gate::ALL {
        assert_eq!(gates.enabled(gate), gate.stage() == Stage::Beta, "{gate}");
    }
}

#[test]
fn by_default_beta_gates_are_on_and_alpha_gates_off() {
    for text in ["", ",", " , ,"] {
        let gates = parse(text);
        for gate in Gate::ALL {
            assert_eq!(gates.enabled(gate), gate.stage() == Stage::Beta, "{gate}");
        }
    }
}

// req: MODE-5
#[test]
fn booleans_are_those_of_strconv() {
    for (text, value) in [
        ("1", true),
        ("t", true),
        ("T", true),
        ("TRUE", true),
        ("true", true),
        ("True", true),
        ("0", false),
        ("f", false),
        ("F", false),
        ("FALSE", false),
        ("false", false),
        ("False", false),
    ] {
        assert_eq!(
            parse(&format!("MPSSupport={text}")).enabled(Gate::MPSSupport),
            value,
            "{text}"
        );
    }
    for text in ["yes", "no", "on", "tRUE", "2", "", "true=1"] {
        let err = parse_error(&format!("MPSSupport={text}"));
        assert_eq!(
            err,
            GateError::NotABool {
                name: "MPSSupport".into(),
                value: text.into()
            }
        );
    }
}

// req: MODE-5
#[test]
fn the_last_value_of_a_repeated_name_wins() {
    assert!(!parse("MPSSupport=true, MPSSupport = false").enabled(Gate::MPSSupport));
}

// req: MODE-5
#[test]
fn an_unknown_gate_is_named_and_the_hint_lists_every_known_one() {
    let err = parse_error("Bogus=true");
    assert_eq!(err.to_string(), "unrecognized feature gate: Bogus");
    for gate in Gate::ALL {
        assert!(err.hint().contains(gate.name()), "{gate}");
    }
    assert!(!err.hint().contains('\n'));
}

#[test]
fn an_item_without_a_value_is_rejected() {
    assert_eq!(
        parse_error("MPSSupport"),
        GateError::MissingValue {
            name: "MPSSupport".into()
        }
    );
}

// req: MODE-6
#[test]
fn host_managed_and_its_alias_are_the_same_gate() {
    for text in [
        "HostManagedIMEX=true",
        "HostManagedIMEXDaemon=true",
        "HostManagedIMEX=true,HostManagedIMEXDaemon=1",
    ] {
        assert!(parse(text).enabled(Gate::HostManagedIMEX), "{text}");
    }
}

// req: MODE-6
#[test]
fn a_gate_and_its_alias_must_not_contradict_each_other() {
    for text in [
        "HostManagedIMEX=true,HostManagedIMEXDaemon=false",
        "HostManagedIMEXDaemon=true,HostManagedIMEX=false",
    ] {
        assert!(
            matches!(parse_error(text), GateError::Contradiction { .. }),
            "{text}"
        );
    }
}

#[test]
fn a_group_changes_only_gates_that_are_not_set_explicitly() {
    let gates = parse("MPSSupport=false,AllAlpha=true,AllBeta=false,ContextualLogging=true");
    assert!(!gates.enabled(Gate::MPSSupport));
    assert!(gates.enabled(Gate::HostManagedIMEX));
    assert!(gates.enabled(Gate::ContextualLogging));
    assert!(!gates.enabled(Gate::ComputeDomainCliques));
}

#[test]
fn gates_that_exclude_each_other_are_rejected() {
    for (text, expected) in [
        (
            "IMEXDaemonsWithDNSNames=false",
            "feature gate ComputeDomainCliques requires feature gate IMEXDaemonsWithDNSNames",
        ),
        (
            "DeviceMetadata=true",
            "feature gate DeviceMetadata requires feature gate PassthroughSupport",
        ),
        (
            "DynamicMIG=true,MPSSupport=true",
            "feature gates DynamicMIG and MPSSupport are mutually exclusive",
        ),
        (
            "PassthroughSupport=true,NVMLDeviceHealthCheck=true",
            "feature gates PassthroughSupport and NVMLDeviceHealthCheck are mutually exclusive",
        ),
    ] {
        assert_eq!(parse(text).validate().unwrap_err().to_string(), expected);
    }
}

#[test]
fn what_is_printed_parses_to_the_same_values() {
    let gates = parse("HostManagedIMEXDaemon=true,AllBeta=false");
    let again = parse(&gates.to_string());
    for gate in Gate::ALL {
        assert_eq!(gates.enabled(gate), again.enabled(gate), "{gate}");
    }
}
