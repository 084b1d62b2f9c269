use dra_common::Class;

use super::*;

const ALL_GATES: &str = "TimeSlicingSettings=true,MPSSupport=true";

fn sharing_of(kind: &str, sharing: &str, gates: &str) -> Result<Option<Sharing>, ConfigError> {
    let json = format!(
        r#"{{"apiVersion":"resource.nvidia.com/v1beta1","kind":"{kind}","sharing":{sharing}}}"#
    );
    let config = OpaqueConfig::decode_strict(&json).unwrap();
    config.sharing(&gates.parse().unwrap())
}

fn gpu(sharing: &str) -> Result<Option<Sharing>, ConfigError> {
    sharing_of("GpuConfig", sharing, ALL_GATES)
}

#[test]
fn without_sharing_nothing_is_set_whatever_the_gates() {
    for kind in ["GpuConfig", "MigDeviceConfig"] {
        for gates in ["", ALL_GATES] {
            assert_eq!(sharing_of(kind, "null", gates).unwrap(), None);
        }
    }
}

#[test]
fn an_absent_interval_is_the_default_one_and_each_other_one_is_itself() {
    for (config, expected) in [
        ("", TimeSlice::Default),
        (r#","timeSlicingConfig":null"#, TimeSlice::Default),
        (r#","timeSlicingConfig":{}"#, TimeSlice::Default),
        (
            r#","timeSlicingConfig":{"interval":null}"#,
            TimeSlice::Default,
        ),
        (
            r#","timeSlicingConfig":{"interval":"Default"}"#,
            TimeSlice::Default,
        ),
        (
            r#","timeSlicingConfig":{"interval":"Short"}"#,
            TimeSlice::Short,
        ),
        (
            r#","timeSlicingConfig":{"interval":"Medium"}"#,
            TimeSlice::Medium,
        ),
        (
            r#","timeSlicingConfig":{"interval":"Long"}"#,
            TimeSlice::Long,
        ),
    ] {
        let sharing = gpu(&format!(r#"{{"strategy":"TimeSlicing"{config}}}"#)).unwrap();
        assert_eq!(sharing, Some(Sharing::TimeSlicing(expected)), "{config}");
    }
}

#[test]
fn time_slicing_sets_nothing_on_a_mig_device() {
    let json = r#"{"strategy":"TimeSlicing"}"#;
    let sharing = sharing_of("MigDeviceConfig", json, ALL_GATES).unwrap();
    assert_eq!(sharing, None);
}

#[test]
fn equal_limits_of_mps_are_equal_settings_however_they_are_written() {
    let limit = |limit| {
        let json = format!(
            r#"{{"strategy":"MPS","mpsConfig":{{"defaultPinnedDeviceMemoryLimit":{limit}}}}}"#
        );
        gpu(&json).unwrap()
    };
    assert_eq!(limit(r#""1Gi""#), limit(r#""1024Mi""#));
    assert_eq!(limit(r#""1Gi""#), limit("1073741824"));
    assert_ne!(limit(r#""1Gi""#), limit(r#""1G""#));
    let without = gpu(r#"{"strategy":"MPS"}"#).unwrap();
    assert_eq!(without, Some(Sharing::Mps(MpsConfig::default())));
    assert_eq!(
        gpu(r#"{"strategy":"MPS","mpsConfig":{}}"#).unwrap(),
        without
    );
}

// req: GPU-53
#[test]
fn the_default_time_slice_is_that_of_a_device_without_settings() {
    let slice = |interval| Some(Sharing::TimeSlicing(interval));
    let mps = Some(Sharing::Mps(MpsConfig::default()));
    let different = [None, slice(TimeSlice::Short), slice(TimeSlice::Long), mps];
    for (number, one) in different.iter().enumerate() {
        for (other_number, other) in different.iter().enumerate() {
            let is_equal = Sharing::are_equal(one.as_ref(), other.as_ref());
            assert_eq!(is_equal, number == other_number, "{one:?}, {other:?}");
        }
    }
    let default = slice(TimeSlice::Default);
    assert!(Sharing::are_equal(None, default.as_ref()));
    assert!(Sharing::are_equal(default.as_ref(), None));
}

// req: GPU-16
#[test]
fn a_strategy_whose_gate_is_off_is_refused_with_the_gate() {
    for kind in ["GpuConfig", "MigDeviceConfig"] {
        for (strategy, gate, other) in [
            ("TimeSlicing", "TimeSlicingSettings", "MPSSupport"),
            ("MPS", "MPSSupport", "TimeSlicingSettings"),
        ] {
            let json = format!(r#"{{"strategy":"{strategy}"}}"#);
            let error = sharing_of(kind, &json, &format!("{other}=true")).unwrap_err();
            let text = format!(
                "{strategy:?} is selected as the GPU sharing strategy, but the {gate:?} feature gate is not enabled"
            );
            assert_eq!(error.to_string(), text);
            assert_eq!(
                (error.code(), error.class()),
                ("config-needs-feature-gate", Class::Permanent)
            );
            assert!(error.hint().starts_with("remove sharing from"));
            assert!(sharing_of(kind, &json, &format!("{gate}=true")).is_ok());
        }
    }
}

#[test]
fn an_invalid_value_is_named() {
    let mps = |config: &str| format!(r#"{{"strategy":"MPS","mpsConfig":{config}}}"#);
    for (json, text) in [
        (
            "{}".to_owned(),
            "unknown GPU sharing strategy: \"\", supported GPU sharing strategies: TimeSlicing, MPS",
        ),
        (
            r#"{"strategy":"mps"}"#.to_owned(),
            "unknown GPU sharing strategy: \"mps\", supported GPU sharing strategies: TimeSlicing, MPS",
        ),
        (
            r#"{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"long"}}"#.to_owned(),
            "unknown time-slice interval: long, supported time-slice intervals: Default, Short, Medium, Long",
        ),
        (
            r#"{"strategy":"TimeSlicing","mpsConfig":{}}"#.to_owned(),
            "sharing.mpsConfig cannot be used with the strategy \"TimeSlicing\"",
        ),
        (
            r#"{"strategy":"MPS","timeSlicingConfig":{}}"#.to_owned(),
            "sharing.timeSlicingConfig cannot be used with the strategy \"MPS\"",
        ),
        (
            mps(r#"{"defaultActiveThreadPercentage":-1}"#),
            "active thread percentage must not be negative: defaultActiveThreadPercentage is -1",
        ),
        (
            mps(r#"{"defaultActiveThreadPercentage":101}"#),
            "active thread percentage must not be greater than 100: defaultActiveThreadPercentage is 101",
        ),
        (
            mps(r#"{"defaultPinnedDeviceMemoryLimit":"1023Ki"}"#),
            "defaultPinnedDeviceMemoryLimit is less than 1Mi, the smallest limit",
        ),
        (
            mps(r#"{"defaultPerDevicePinnedMemoryLimit":{"0":"1Mi","1":"1m"}}"#),
            "defaultPerDevicePinnedMemoryLimit of device \"1\" is less than 1Mi, the smallest limit",
        ),
    ] {
        let error = gpu(&json).unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), "config-field-value");
    }
    for valid in [
        mps(r#"{"defaultActiveThreadPercentage":0}"#),
        mps(r#"{"defaultActiveThreadPercentage":100}"#),
        mps(r#"{"defaultPinnedDeviceMemoryLimit":"1Mi"}"#),
    ] {
        assert!(gpu(&valid).is_ok(), "{valid}");
    }
}
