use dra_common::Class;

use super::*;
use crate::sharing::TimeSlice;

const ALL_GATES: &str = "TimeSlicingSettings=true,MPSSupport=true";
const MIG: &str = "gpu-0-mig-1g10gb-19-3";
const DEFAULT_SLICE: &str = r#"{"strategy":"TimeSlicing"}"#;
const LONG_SLICE: &str = r#"{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}"#;
const MPS: &str = r#"{"strategy":"MPS"}"#;

fn mk_result(request: &str, device: &str) -> String {
    format!(
        r#"{{"request":"{request}","driver":"gpu.nvidia.com","pool":"node-a","device":"{device}"}}"#
    )
}

fn mk_config(source: &str, requests: &[&str], kind: &str, sharing: &str) -> String {
    format!(
        r#"{{"source":"{source}","requests":{requests:?},"opaque":{{"driver":"gpu.nvidia.com","parameters":
            {{"apiVersion":"resource.nvidia.com/v1beta1","kind":"{kind}","sharing":{sharing}}}}}}}"#
    )
}

fn mk_status(results: &[String], configs: &[String]) -> ClaimStatus {
    let (results, configs) = (results.join(","), configs.join(","));
    let text =
        format!(r#"{{"allocation":{{"devices":{{"results":[{results}],"config":[{configs}]}}}}}}"#);
    ClaimStatus::from_json(&text).unwrap()
}

/// The settings of the devices.
fn settings(
    results: &[String],
    configs: &[String],
    gates: &str,
) -> Result<Vec<Option<Sharing>>, ConfigError> {
    let status = mk_status(results, configs);
    let devices = configured_devices(&status, &gates.parse().unwrap())?;
    Ok(devices.into_iter().map(|it| it.sharing).collect())
}

fn error_of(results: &[String], configs: &[String]) -> ConfigError {
    let error = settings(results, configs, ALL_GATES).unwrap_err();
    assert_eq!(error.class(), Class::Permanent);
    error
}

/// Whether the config with the default time slice is the effective one; the others have no settings.
fn has_slice(result: &str, configs: &[String]) -> bool {
    let found = settings(&[result.to_owned()], configs, ALL_GATES).unwrap();
    found == [Some(Sharing::TimeSlicing(TimeSlice::Default))]
}

#[test]
fn a_claim_without_configs_gets_its_devices_as_they_are_in_order() {
    let other = mk_result("nic", "nic-0").replace("gpu.nvidia.com", "nic.example.com");
    let results = [mk_result("a", "gpu-1"), other, mk_result("b", MIG)];
    let status = mk_status(&results, &[]);
    for gates in ["", ALL_GATES] {
        let devices = configured_devices(&status, &gates.parse().unwrap()).unwrap();
        let found: Vec<_> = devices
            .iter()
            .map(|it| (it.result.device(), it.device_type, &it.sharing))
            .collect();
        assert_eq!(
            found,
            [
                ("gpu-1", DeviceType::Gpu, &None),
                (MIG, DeviceType::Mig, &None)
            ]
        );
    }
    let none = ClaimStatus::default();
    assert!(
        configured_devices(&none, &FeatureGates::default())
            .unwrap()
            .is_empty()
    );
}

// req: GPU-15
#[test]
fn the_last_config_of_the_claim_wins_over_its_others_and_over_those_of_the_class() {
    let result = mk_result("gpu", "gpu-0");
    let slice = |source, requests: &[&str]| mk_config(source, requests, "GpuConfig", DEFAULT_SLICE);
    let plain = |source, requests: &[&str]| mk_config(source, requests, "GpuConfig", "null");
    for (configs, expected) in [
        (vec![slice("FromClass", &[])], true),
        (vec![slice("FromClaim", &[])], true),
        (vec![slice("FromClaim", &["gpu"])], true),
        (vec![slice("FromClaim", &["other"])], false),
        (vec![plain("FromClass", &[]), slice("FromClaim", &[])], true),
        // The order of class and claim does not matter.
        (vec![slice("FromClaim", &[]), plain("FromClass", &[])], true),
        (
            vec![plain("FromClaim", &[]), slice("FromClass", &["gpu"])],
            false,
        ),
        (vec![plain("FromClaim", &[]), slice("FromClaim", &[])], true),
        (
            vec![slice("FromClaim", &["gpu"]), plain("FromClaim", &[])],
            false,
        ),
        (
            vec![slice("FromClaim", &[]), plain("FromClaim", &["other"])],
            true,
        ),
    ] {
        assert_eq!(has_slice(&result, &configs), expected, "{configs:?}");
    }
}

// req: GPU-15
#[test]
fn a_config_for_a_request_applies_to_its_subrequests() {
    let result = mk_result("main/big", "gpu-0");
    for (request, expected) in [
        ("main", true),
        ("main/big", true),
        ("main/small", false),
        ("big", false),
        ("mai", false),
    ] {
        let config = mk_config("FromClaim", &[request], "GpuConfig", DEFAULT_SLICE);
        assert_eq!(has_slice(&result, &[config]), expected, "{request}");
    }
}

// req: GPU-15
#[test]
fn a_config_without_requests_applies_only_to_the_devices_of_its_kind() {
    let results = [mk_result("a", "gpu-0"), mk_result("b", MIG)];
    let configs = [
        mk_config("FromClass", &[], "GpuConfig", DEFAULT_SLICE),
        mk_config("FromClass", &[], "MigDeviceConfig", "null"),
        mk_config("FromClaim", &[], "VfioDeviceConfig", "null").replace(",\"sharing\":null", ""),
    ];
    assert_eq!(
        settings(&results, &configs, ALL_GATES).unwrap(),
        [Some(Sharing::TimeSlicing(TimeSlice::Default)), None]
    );
}

// req: GPU-15
#[test]
fn a_config_that_names_the_request_of_a_device_of_another_kind_is_refused() {
    for (device, request, names, kind, text) in [
        (
            MIG,
            "r",
            "r",
            "GpuConfig",
            "cannot apply GpuConfig to device \"gpu-0-mig-1g10gb-19-3\" of type \"mig\" (request: r)",
        ),
        (
            "gpu-0",
            "r",
            "r",
            "MigDeviceConfig",
            "cannot apply MigDeviceConfig to device \"gpu-0\" of type \"gpu\" (request: r)",
        ),
        (
            "gpu-0",
            "r/s",
            "r",
            "MigDeviceConfig",
            "cannot apply MigDeviceConfig to device \"gpu-0\" of type \"gpu\" (request: r/s)",
        ),
        (
            "gpu-0",
            "r",
            "r",
            "VfioDeviceConfig",
            "cannot apply VfioDeviceConfig to device \"gpu-0\" of type \"gpu\" (request: r)",
        ),
    ] {
        let named = mk_config("FromClaim", &[names], kind, "null");
        let named = named.replace(",\"sharing\":null", "");
        // One that fits, with lower precedence.
        let fitting = mk_config("FromClass", &[], "GpuConfig", "null");
        let error = error_of(&[mk_result(request, device)], &[fitting, named]);
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), "config-of-other-device-type");
        let is_vfio = kind == "VfioDeviceConfig";
        assert_eq!(error.hint().contains("virtual machines"), is_vfio);
    }
}

// req: GPU-13
#[test]
fn a_typo_is_an_error_even_in_a_config_that_another_one_overrides() {
    let typo = mk_config("FromClass", &[], "GpuConfig", r#"{"Strategy":"MPS"}"#);
    let plain = mk_config("FromClaim", &[], "GpuConfig", "null");
    let error = error_of(&[mk_result("gpu", "gpu-0")], &[typo, plain]);
    assert_eq!(error.code(), "config-unknown-field");
}

#[test]
fn configs_of_other_drivers_are_not_read() {
    let config = mk_config("FromClaim", &[], "X", "{}").replace("gpu.nvidia.com", "other");
    assert_eq!(
        settings(&[mk_result("gpu", "gpu-0")], &[config], "").unwrap(),
        [None]
    );
}

// req: GPU-17
#[test]
fn settings_that_this_version_cannot_apply_are_refused_and_named() {
    for (device, kind) in [("gpu-0", "GpuConfig"), (MIG, "MigDeviceConfig")] {
        let result = [mk_result("gpu", device)];
        let config = mk_config("FromClaim", &[], kind, MPS);
        let error = error_of(&result, std::slice::from_ref(&config));
        assert_eq!(error.code(), "mps-not-supported");
        assert!(error.to_string().contains("\"MPS\""), "{error}");
        assert!(error.hint().starts_with("remove sharing from"));
        // Only the effective config counts.
        let plain = mk_config("FromClaim", &[], kind, "null");
        let overridden = settings(&result, &[config, plain], "");
        assert_eq!(overridden.unwrap(), [None]);
    }
    let error = error_of(&[mk_result("vm", "gpu-vfio-0")], &[]);
    assert_eq!(error.code(), "vfio-not-supported");
    assert!(error.to_string().contains("VfioDeviceConfig"), "{error}");
}

/// The result with a share.
fn shared(result: &str) -> String {
    result.replace("\"pool\"", "\"shareID\":\"share\",\"pool\"")
}

// req: GPU-56
#[test]
fn mps_on_a_shared_device_is_refused() {
    for (device, kind) in [("gpu-0", "GpuConfig"), (MIG, "MigDeviceConfig")] {
        let result = shared(&mk_result("gpu", device));
        let config = mk_config("FromClaim", &[], kind, MPS);
        let error = error_of(&[result], &[config]);
        assert_eq!(error.code(), "mps-with-shares");
        assert!(error.to_string().contains(device), "{error}");
    }
}

// req: GPU-56
#[test]
fn two_shares_of_a_device_with_different_settings_are_refused() {
    let results = ["a", "b"].map(|request| shared(&mk_result(request, "gpu-0")));
    let of_b = |sharing| [mk_config("FromClaim", &["b"], "GpuConfig", sharing)];
    let code = |results: &[String], sharing| {
        let outcome = settings(results, &of_b(sharing), ALL_GATES);
        outcome.err().map(|error| error.code())
    };
    assert_eq!(code(&results, LONG_SLICE), Some("config-conflict"));
    assert_eq!(code(&results, "null"), None);
    assert_eq!(code(&results, DEFAULT_SLICE), None);
    let reversed = [results[1].clone(), results[0].clone()];
    assert_eq!(code(&reversed, LONG_SLICE), Some("config-conflict"));
    // Only one of the two requests gets settings.
    let others = [results[0].clone(), shared(&mk_result("b", "gpu-1"))];
    assert_eq!(code(&others, LONG_SLICE), None);
    let admin = results[0].replace("\"pool\"", "\"adminAccess\":true,\"pool\"");
    assert_eq!(code(&[admin, results[1].clone()], LONG_SLICE), None);
}

// req: GPU-54
#[test]
fn the_settings_of_a_prepared_claim_do_not_depend_on_gates_or_on_what_this_version_can_apply() {
    let unknown = LONG_SLICE.replace("\"strategy\"", "\"newer\":1,\"strategy\"");
    let config = mk_config("FromClaim", &[], "GpuConfig", &unknown);
    let status = mk_status(&[mk_result("gpu", "gpu-0")], &[config]);
    let devices = recorded_devices(&status).unwrap();
    let long = Some(Sharing::TimeSlicing(TimeSlice::Long));
    assert_eq!(devices[0].sharing, long);
    let config = mk_config("FromClaim", &[], "GpuConfig", r#"{"strategy":"Newer"}"#);
    let status = mk_status(&[mk_result("gpu", "gpu-0")], &[config]);
    assert!(recorded_devices(&status).is_err());
}

// req: GPU-18
#[test]
fn a_device_with_admin_access_gets_no_settings() {
    let admin = mk_result("gpu", "gpu-0").replace("\"pool\"", "\"adminAccess\":true,\"pool\"");
    for sharing in [DEFAULT_SLICE, LONG_SLICE, MPS] {
        let config = mk_config("FromClaim", &[], "GpuConfig", sharing);
        assert_eq!(
            settings(std::slice::from_ref(&admin), &[config], "").unwrap(),
            [None]
        );
    }
}

#[test]
fn a_device_that_the_driver_does_not_publish_is_refused() {
    let error = error_of(&[mk_result("gpu", "channel-0")], &[]);
    assert_eq!(error.code(), "not-a-gpu");
    assert!(error.to_string().contains("\"channel-0\""), "{error}");
}
