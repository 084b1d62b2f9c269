use super::*;

fn parse(text: &str) -> FeatureGates {
    text.parse().unwrap()
}

fn refuse(text: &str) -> GateError {
    text.parse::<FeatureGates>().unwrap_err()
}

#[test]
fn every_gate_is_found_by_its_name() {
    for gate in GATES {
        assert_eq!(Gate::from_name(gate.name()), Some(gate));
    }
    assert!(GATES.is_sorted_by_key(|gate| gate.name()));
}

#[test]
fn the_string_that_a_go_controller_passes_on_is_understood() {
    let go = "AllAlpha=false,AllBeta=false,ComputeDomainCliques=true,ConsumableShares=false,\
        ContextualLogging=true,CrashOnNVLinkFabricErrors=true,DRAListTypeAttributes=false,\
        DeviceMetadata=false,DynamicMIG=false,FabricManagerPartitioning=false,\
        HostManagedIMEXDaemon=false,IMEXDaemonsWithDNSNames=true,LoggingAlphaOptions=false,\
        LoggingBetaOptions=true,MPSSupport=false,NVMLDeviceHealthCheck=false,\
        PassthroughSupport=false,TimeSlicingSettings=false,";
    let gates = parse(go);
    gates.validate().unwrap();
    for gate in GATES {
        assert_eq!(gates.enabled(gate), gate.stage() == Stage::Beta, "{gate}");
    }
}

#[test]
fn nothing_set_means_beta_on_and_alpha_off() {
    for text in ["", ",", " , ,"] {
        let gates = parse(text);
        for gate in GATES {
            assert_eq!(gates.enabled(gate), gate.stage() == Stage::Beta, "{gate}");
        }
    }
}

#[test]
fn bools_are_spelled_as_strconv_spells_them() {
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
        let err = refuse(&format!("MPSSupport={text}"));
        assert_eq!(
            err,
            GateError::NotABool {
                name: "MPSSupport".into(),
                value: text.into()
            }
        );
    }
}

#[test]
fn the_last_value_of_a_repeated_spelling_wins() {
    assert!(!parse("MPSSupport=true, MPSSupport = false").enabled(Gate::MPSSupport));
}

#[test]
fn an_unknown_gate_is_named_and_the_hint_lists_every_known_one() {
    let err = refuse("Bogus=true");
    assert_eq!(err.to_string(), "unrecognized feature gate: Bogus");
    for gate in GATES {
        assert!(err.hint().contains(gate.name()), "{gate}");
    }
    assert!(!err.hint().contains('\n'));
}

#[test]
fn an_item_without_a_value_is_refused() {
    assert_eq!(
        refuse("MPSSupport"),
        GateError::MissingValue {
            name: "MPSSupport".into()
        }
    );
}

#[test]
fn both_spellings_of_host_managed_are_one_gate() {
    for text in [
        "HostManagedIMEX=true",
        "HostManagedIMEXDaemon=true",
        "HostManagedIMEX=true,HostManagedIMEXDaemon=1",
    ] {
        assert!(parse(text).enabled(Gate::HostManagedIMEX), "{text}");
    }
}

#[test]
fn contradicting_spellings_are_refused_in_either_order() {
    for text in [
        "HostManagedIMEX=true,HostManagedIMEXDaemon=false",
        "HostManagedIMEXDaemon=true,HostManagedIMEX=false",
    ] {
        assert!(
            matches!(refuse(text), GateError::Contradiction { .. }),
            "{text}"
        );
    }
}

#[test]
fn a_group_switch_moves_only_gates_that_are_not_named() {
    let gates = parse("MPSSupport=false,AllAlpha=true,AllBeta=false,ContextualLogging=true");
    assert!(!gates.enabled(Gate::MPSSupport));
    assert!(gates.enabled(Gate::HostManagedIMEX));
    assert!(gates.enabled(Gate::ContextualLogging));
    assert!(!gates.enabled(Gate::ComputeDomainCliques));
}

#[test]
fn gates_that_cannot_work_together_are_refused() {
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
    for gate in GATES {
        assert_eq!(gates.enabled(gate), again.enabled(gate), "{gate}");
    }
}
