use super::*;

const UID: &str = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";

fn channel(rest: &str) -> String {
    format!(
        r#"{{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"{UID}"{rest}}}"#
    )
}

fn strict_error(json: &str) -> String {
    OpaqueConfig::decode_strict(json).unwrap_err().to_string()
}

#[test]
fn a_channel_config_decodes_with_its_allocation_mode() {
    for (rest, expected) in [
        ("", AllocationMode::Unset),
        (r#","allocationMode":null"#, AllocationMode::Unset),
        (r#","allocationMode":"""#, AllocationMode::Unset),
        (r#","allocationMode":"Single""#, AllocationMode::Single),
        (r#","allocationMode":"All""#, AllocationMode::All),
        (
            r#","allocationMode":"foo""#,
            AllocationMode::Unknown("foo".into()),
        ),
    ] {
        let OpaqueConfig::Channel(config) = OpaqueConfig::decode_strict(&channel(rest)).unwrap()
        else {
            panic!("{rest}: not a channel config");
        };
        assert_eq!(config.domain_uid.as_str(), UID);
        assert_eq!(config.allocation_mode, expected, "{rest}");
    }
}

#[test]
fn a_daemon_config_decodes_and_has_no_allocation_mode() {
    let daemon = channel("").replace("Channel", "Daemon");
    assert!(matches!(
        OpaqueConfig::decode_strict(&daemon),
        Ok(OpaqueConfig::Daemon(_))
    ));
    let daemon = channel(r#","allocationMode":"All""#).replace("Channel", "Daemon");
    assert_eq!(
        strict_error(&daemon),
        r#"strict decoding error: unknown field "allocationMode""#
    );
}

#[test]
fn unknown_and_duplicate_fields_are_all_in_one_error_in_their_order() {
    assert_eq!(
        strict_error(&channel(r#","x":1"#)),
        r#"strict decoding error: unknown field "x""#
    );
    assert_eq!(
        strict_error(&channel(r#","domainID":"other""#)),
        r#"strict decoding error: duplicate field "domainID""#
    );
    assert_eq!(
        strict_error(&channel(
            r#","DomainID":"a","x":{},"kind":"ComputeDomainChannelConfig""#
        )),
        r#"strict decoding error: unknown field "DomainID", unknown field "x", duplicate field "kind""#
    );
}

#[test]
fn a_duplicate_hidden_by_an_escape_is_found() {
    assert_eq!(
        strict_error(&channel(r#","domain\u0049D":"other""#)),
        r#"strict decoding error: duplicate field "domainID""#
    );
}

#[test]
fn wrong_kinds_and_versions_are_named() {
    let version = channel("").replace("v1beta1", "v1");
    assert_eq!(
        strict_error(&version),
        r#"no kind "ComputeDomainChannelConfig" is registered for version "resource.nvidia.com/v1""#
    );
    let kind = channel("").replace("ComputeDomainChannelConfig", "Foo");
    assert_eq!(
        strict_error(&kind),
        r#"no kind "Foo" is registered for version "resource.nvidia.com/v1beta1""#
    );
    let gpu = channel("").replace("ComputeDomainChannelConfig", "GpuConfig");
    assert_eq!(
        strict_error(&gpu),
        r#"kind "GpuConfig" is not the configuration of a ComputeDomain claim"#
    );
    assert_eq!(
        strict_error(r#"{"apiVersion":"resource.nvidia.com/v1beta1"}"#),
        "object 'kind' is missing"
    );
    assert_eq!(
        strict_error(r#"{"kind":"Foo","apiVersion":null}"#),
        "object 'apiVersion' is missing"
    );
}

#[test]
fn what_is_not_a_json_object_is_rejected() {
    for json in ["", "null", "[]", "\"x\"", "kind: Foo", "{", "{} {}"] {
        assert_eq!(
            strict_error(json),
            "parameters are not a JSON object",
            "{json:?}"
        );
    }
}

#[test]
fn a_field_of_the_wrong_type_is_rejected() {
    let json = channel(r#","allocationMode":1"#);
    assert_eq!(
        strict_error(&json),
        r#"field "allocationMode" is not a string"#
    );
}

#[test]
fn an_invalid_uid_is_rejected() {
    for (id, message) in [
        ("\"\"", "domainID cannot be empty"),
        ("null", "domainID cannot be empty"),
        ("\"../etc\"", "domainID \"../etc\" is not a UID"),
    ] {
        let json = channel("").replace(&format!("\"{UID}\""), id);
        assert!(
            strict_error(&json).starts_with(message),
            "{json}: {}",
            strict_error(&json)
        );
    }
}

fn lenient_mode(rest: &str) -> AllocationMode {
    match OpaqueConfig::decode_lenient(&channel(rest)).unwrap() {
        OpaqueConfig::Channel(config) => config.allocation_mode,
        OpaqueConfig::Daemon(_) => panic!("{rest}: not a channel config"),
    }
}

#[test]
fn lenient_decoding_ignores_unknown_fields() {
    for rest in [
        r#","x":1"#,
        r#","AllocationMode":"All""#,
        r#","x":{"allocationMode":"All"},"y":[null]"#,
    ] {
        assert_eq!(lenient_mode(rest), AllocationMode::Unset, "{rest}");
        assert!(OpaqueConfig::decode_strict(&channel(rest)).is_err());
    }
    let daemon = channel(r#","allocationMode":"All""#).replace("Channel", "Daemon");
    assert!(matches!(
        OpaqueConfig::decode_lenient(&daemon),
        Ok(OpaqueConfig::Daemon(_))
    ));
}

#[test]
fn lenient_decoding_uses_the_last_non_null_duplicate() {
    for (rest, expected) in [
        (
            r#","allocationMode":"Single","allocationMode":"All""#,
            AllocationMode::All,
        ),
        (
            r#","allocationMode":"Single","allocation\u004dode":"All""#,
            AllocationMode::All,
        ),
        (
            r#","allocationMode":"All","allocationMode":"""#,
            AllocationMode::Unset,
        ),
        (
            r#","allocationMode":"All","allocationMode":null"#,
            AllocationMode::All,
        ),
        (r#","allocationMode":null"#, AllocationMode::Unset),
        (r#","allocationMode":"""#, AllocationMode::Unset),
    ] {
        assert_eq!(lenient_mode(rest), expected, "{rest}");
    }
}

#[test]
fn lenient_decoding_rejects_a_config_without_a_domain() {
    for (json, code) in [
        ("null".to_owned(), "config-not-json"),
        ("[]".to_owned(), "config-not-json"),
        (
            channel("").replace("\"kind\"", "\"Kind\""),
            "config-without-kind",
        ),
        (
            channel("").replace("v1beta1", "v1"),
            "config-of-unknown-kind",
        ),
        (channel(r#","domainID":1"#), "config-field-type"),
        (channel(r#","domainID":"""#), "config-domain-id"),
        (channel(r#","domainID":"../etc""#), "config-domain-id"),
    ] {
        let err = OpaqueConfig::decode_lenient(&json).unwrap_err();
        assert_eq!(err.code(), code, "{json}");
    }
}

#[test]
fn the_config_in_a_template_decodes_to_the_same_config() {
    for mode in ["", "Single", "All", "foo"] {
        let config = ComputeDomainChannelConfig {
            domain_uid: DomainUid::parse(UID).unwrap(),
            allocation_mode: mode.to_owned().into(),
        };
        let text = config.to_parameters().to_string();
        assert_eq!(
            OpaqueConfig::decode_strict(&text).unwrap(),
            OpaqueConfig::Channel(config.clone()),
            "{text}"
        );
        assert_eq!(
            OpaqueConfig::decode_lenient(&text).unwrap(),
            OpaqueConfig::Channel(config),
            "{text}"
        );
    }
}

/// The description of each field.
fn meaning(field: &str) -> String {
    match field {
        "apiVersion" => format!("`{API_VERSION}`; required"),
        "kind" => "the title of this section; required".to_owned(),
        "domainID" => "UID of the ComputeDomain; required".to_owned(),
        "allocationMode" => {
            "`Single`, also if absent or empty: one channel. `All`: every channel of the node. This driver \
            rejects `All` and any other value in Prepare"
                .to_owned()
        }
        other => panic!("the reference has no description of {other}"),
    }
}

#[test]
fn the_reference_has_every_field_of_every_kind() {
    let kinds = [
        (
            ConfigKind::Channel,
            ComputeDomainChannelConfig::KIND,
            "For the claims of workloads. The controller writes this config into the template of a ComputeDomain, \
             so users need not write it.",
        ),
        (
            ConfigKind::Daemon,
            ComputeDomainDaemonConfig::KIND,
            "For the claims of IMEX daemons in the driver-managed mode of NVIDIA's Go driver. This driver rejects \
             such claims.",
        ),
    ];
    let mut page = "# Opaque configs of claims\n\n`spec.devices.config[].opaque.parameters` of a ResourceClaim, \
        for the driver `compute-domain.nvidia.com`. Unknown and duplicate fields are errors; names are \
        case-sensitive; null means absent.\n"
        .to_owned();
    for (kind, name, words) in kinds {
        let rows = kind
            .fields()
            .iter()
            .map(|field| format!("| `{field}` | {} |\n", meaning(field)));
        let rows: String = rows.collect();
        page = format!("{page}\n## {name}\n\n{words}\n\n| field | |\n|---|---|\n{rows}");
    }
    reference::assert_page("opaque-configs.md", env!("CARGO_PKG_NAME"), &page);
}
