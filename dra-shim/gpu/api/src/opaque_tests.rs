use super::*;

fn config(kind: &str, rest: &str) -> String {
    format!(r#"{{"apiVersion":"resource.nvidia.com/v1beta1","kind":"{kind}"{rest}}}"#)
}

fn sharing(kind: &str, sharing: &str) -> SharingConfig {
    let json = config(kind, &format!(r#","sharing":{sharing}"#));
    let decoded = OpaqueConfig::decode_strict(&json).unwrap();
    assert_eq!(decoded, OpaqueConfig::decode_lenient(&json).unwrap());
    decoded.sharing.unwrap()
}

fn strict_error(json: &str) -> String {
    let error = OpaqueConfig::decode_strict(json).unwrap_err();
    assert_eq!(error.class(), dra_common::Class::Permanent);
    error.to_string()
}

#[test]
fn each_kind_is_for_one_type_of_device_and_needs_no_sharing() {
    for (kind, device_type) in [
        ("GpuConfig", DeviceType::Gpu),
        ("MigDeviceConfig", DeviceType::Mig),
        ("VfioDeviceConfig", DeviceType::Vfio),
    ] {
        let expected = OpaqueConfig {
            device_type,
            sharing: None,
        };
        let decoded = OpaqueConfig::decode_strict(&config(kind, "")).unwrap();
        assert_eq!(decoded, expected, "{kind}");
    }
    let iommu = r#","iommu":{"backendPolicy":"LegacyOnly","enableAPIDevice":true}"#;
    assert!(OpaqueConfig::decode_strict(&config("VfioDeviceConfig", iommu)).is_ok());
}

#[test]
fn time_slicing_is_decoded_as_it_was_written() {
    for (json, time_slicing) in [
        (r#"{"strategy":"TimeSlicing"}"#, None),
        (
            r#"{"strategy":"TimeSlicing","timeSlicingConfig":null}"#,
            None,
        ),
        (
            r#"{"strategy":"TimeSlicing","timeSlicingConfig":{}}"#,
            Some(None),
        ),
        (
            r#"{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Odd"}}"#,
            Some(Some("Odd")),
        ),
    ] {
        let expected = SharingConfig {
            strategy: "TimeSlicing".to_owned(),
            time_slicing: time_slicing.map(|interval| TimeSlicingConfig {
                interval: interval.map(str::to_owned),
            }),
            mps: None,
        };
        assert_eq!(sharing("GpuConfig", json), expected, "{json}");
    }
    assert_eq!(sharing("GpuConfig", "{}"), SharingConfig::default());
}

#[test]
fn mps_is_decoded_with_its_limits_in_bytes() {
    let json = r#"{"strategy":"MPS","mpsConfig":{
        "defaultActiveThreadPercentage":50,"defaultPinnedDeviceMemoryLimit":"4Gi",
        "defaultPerDevicePinnedMemoryLimit":{"0":1048576,"GPU-1.x":"1500M"},"multiUser":true}}"#;
    for kind in ["GpuConfig", "MigDeviceConfig"] {
        let limits = [("0", 1 << 20), ("GPU-1.x", 1_500_000_000)];
        let expected = SharingConfig {
            strategy: "MPS".to_owned(),
            time_slicing: None,
            mps: Some(MpsConfig {
                active_thread_percentage: Some(50),
                pinned_memory_limit: Some(4 << 30),
                pinned_memory_limits: limits.map(|(device, it)| (device.to_owned(), it)).into(),
                multi_user: true,
            }),
        };
        assert_eq!(sharing(kind, json), expected, "{kind}");
    }
}

// req: GPU-13
#[test]
fn every_unknown_or_duplicate_field_is_named_with_its_path() {
    for (kind, rest, problems) in [
        (
            "GpuConfig",
            r#","Sharing":{}"#,
            r#"unknown field "Sharing""#,
        ),
        (
            "GpuConfig",
            r#","sharing":{"Strategy":"MPS","x":1}"#,
            r#"unknown field "sharing.Strategy", unknown field "sharing.x""#,
        ),
        (
            "GpuConfig",
            r#","sharing":{"strategy":"MPS","strategy":"MPS"}"#,
            r#"duplicate field "sharing.strategy""#,
        ),
        (
            "GpuConfig",
            r#","sharing":{"timeSlicingConfig":{"Interval":"Long"}}"#,
            r#"unknown field "sharing.timeSlicingConfig.Interval""#,
        ),
        (
            "GpuConfig",
            r#","sharing":{"mpsConfig":{"multiuser":true,"defaultPerDevicePinnedMemoryLimit":{"0":"1Gi","0":"2Gi"}}}"#,
            r#"unknown field "sharing.mpsConfig.multiuser", duplicate field "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.0""#,
        ),
        (
            "MigDeviceConfig",
            r#","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{}}"#,
            r#"unknown field "sharing.timeSlicingConfig""#,
        ),
        ("GpuConfig", r#","iommu":{}"#, r#"unknown field "iommu""#),
        (
            "VfioDeviceConfig",
            r#","sharing":{},"iommu":{"backend":1}"#,
            r#"unknown field "sharing", unknown field "iommu.backend""#,
        ),
    ] {
        let json = config(kind, rest);
        assert_eq!(
            strict_error(&json),
            format!("strict decoding error: {problems}")
        );
        assert!(OpaqueConfig::decode_lenient(&json).is_ok(), "{json}");
    }
}

// req: GPU-13
#[test]
fn a_stored_config_decodes_without_what_is_unknown() {
    let json = config(
        "MigDeviceConfig",
        r#","x":1,"sharing":{"strategy":"A","strategy":"MPS","strategy":null,"timeSlicingConfig":{"interval":1}}"#,
    );
    let decoded = OpaqueConfig::decode_lenient(&json).unwrap();
    let expected = SharingConfig {
        strategy: "MPS".to_owned(),
        ..SharingConfig::default()
    };
    assert_eq!(decoded.sharing, Some(expected));
}

#[test]
fn a_field_of_the_wrong_type_is_named_with_its_path() {
    for (field, text) in [
        (r#""sharing":"MPS""#, r#""sharing" is not an object"#),
        (
            r#""sharing":{"strategy":1}"#,
            r#""sharing.strategy" is not a string"#,
        ),
        (
            r#""sharing":{"mpsConfig":{"defaultActiveThreadPercentage":50.5}}"#,
            r#""sharing.mpsConfig.defaultActiveThreadPercentage" is not an integer"#,
        ),
        (
            r#""sharing":{"mpsConfig":{"multiUser":"true"}}"#,
            r#""sharing.mpsConfig.multiUser" is not a boolean"#,
        ),
        (
            r#""sharing":{"mpsConfig":{"defaultPerDevicePinnedMemoryLimit":{"0":"4GB"}}}"#,
            r#""sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.0" is not a quantity"#,
        ),
    ] {
        let json = config("GpuConfig", &format!(",{field}"));
        assert_eq!(strict_error(&json), format!("field {text}"));
        assert!(OpaqueConfig::decode_lenient(&json).is_err());
    }
}

// req: GPU-14
#[test]
fn a_kind_of_the_other_driver_is_named() {
    for kind in OTHER_KINDS {
        let error = OpaqueConfig::decode_strict(&config(kind, "")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(kind) && text.contains("compute-domain.nvidia.com"),
            "{text}"
        );
        assert_eq!(error.code(), "config-of-unknown-kind");
    }
}

#[test]
fn an_unknown_kind_or_version_is_named_and_the_hint_has_the_known_ones() {
    for (json, text) in [
        (
            config("GPUConfig", ""),
            r#"no kind "GPUConfig" is registered for version "resource.nvidia.com/v1beta1""#,
        ),
        (
            config("GpuConfig", "").replace("v1beta1", "v1alpha1"),
            r#"no kind "GpuConfig" is registered for version "resource.nvidia.com/v1alpha1""#,
        ),
        ("{}".to_owned(), "object 'kind' is missing"),
    ] {
        let error = OpaqueConfig::decode_strict(&json).unwrap_err();
        assert_eq!(error.to_string(), text);
        for known in [API_VERSION, "GpuConfig", "MigDeviceConfig"] {
            assert!(error.hint().contains(known), "{}", error.hint());
        }
    }
    assert_eq!(strict_error("null"), "parameters are not a JSON object");
}

/// The description of each field.
fn meaning(path: &str) -> &'static str {
    match path {
        "apiVersion" => "`resource.nvidia.com/v1beta1`; required",
        "kind" => "the title of this section; required",
        "sharing" => {
            "how the claim's processes share the device. Absent: the device stays as it is"
        }
        "sharing.strategy" => {
            "`TimeSlicing` (feature gate `TimeSlicingSettings`) or `MPS` (feature gate `MPSSupport`; refused by this version). For a \
            MIG device, `TimeSlicing` sets nothing"
        }
        "sharing.timeSlicingConfig" => "only with `TimeSlicing`",
        "sharing.timeSlicingConfig.interval" => {
            "`Default`, also if absent: the time slice stays as it is. `Short`, `Medium`, `Long`: the GPU has this time slice until the claim's last pod ends, then the driver's default. [Claims that share the GPU](../installation.md#shared-gpus) must ask for the same one"
        }
        "sharing.mpsConfig" => "only with `MPS`",
        "sharing.mpsConfig.defaultActiveThreadPercentage" => {
            "a client's share of the multiprocessors, from 0 to 100"
        }
        "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit" => {
            "a client's memory on each device: a quantity from `1Mi`"
        }
        "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit" => {
            "the same for single devices; overrides the limit for all"
        }
        "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.*" => {
            "the name is a device's UUID, or its index in the claim; the value is a quantity from `1Mi`"
        }
        "sharing.mpsConfig.multiUser" => "whether processes of different users can be clients",
        "iommu" => "the IOMMU backend",
        "iommu.backendPolicy" => "`LegacyOnly` or `PreferIommuFD`",
        "iommu.enableAPIDevice" => "whether the container gets the device of the IOMMU's API",
        other => panic!("the reference has no description of {other}"),
    }
}

#[test]
fn the_reference_has_every_field_of_every_kind() {
    let kinds = [
        (
            DeviceType::Gpu,
            "For requests of whole GPUs (DeviceClass `gpu.nvidia.com`).",
        ),
        (
            DeviceType::Mig,
            "For requests of MIG devices (DeviceClass `mig.nvidia.com`).",
        ),
        (
            DeviceType::Vfio,
            "For requests of GPUs for virtual machines. This version refuses such devices.",
        ),
    ];
    let mut page = "# Opaque configs of claims for GPUs\n\n`spec.devices.config[].opaque.parameters` of a ResourceClaim or \
        DeviceClass, for the driver `gpu.nvidia.com`. A claim needs no config. Unknown and duplicate fields are errors; names \
        are case-sensitive; null means absent.\n\nA device gets the last config that applies to it; those of the claim come \
        after those of the class. A config without `requests` applies to the devices of its kind. A config that names a device's \
        request, or the request of its subrequest, must be of the device's kind. A device with `adminAccess` gets no settings.\n"
        .to_owned();
    for (device_type, words) in kinds {
        let fields = fields(device_type);
        let rows = fields
            .iter()
            .map(|field| format!("| `{field}` | {} |\n", meaning(field)));
        let rows: String = rows.collect();
        let title = device_type.config_kind();
        page = format!("{page}\n## {title}\n\n{words}\n\n| field | |\n|---|---|\n{rows}");
    }
    reference::assert_page("gpu-configs.md", env!("CARGO_PKG_NAME"), &page);
}
