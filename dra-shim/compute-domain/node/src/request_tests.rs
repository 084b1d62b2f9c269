use super::*;

const DOMAIN: &str = "c0ffee00-1234-4567-89ab-0123456789ab";

/// A status with `results` (JSON objects) and `configs` (JSON objects).
fn mk_status(results: &str, configs: &str) -> ClaimStatus {
    let text =
        format!(r#"{{"allocation":{{"devices":{{"results":[{results}],"config":[{configs}]}}}}}}"#);
    ClaimStatus::from_json(&text).unwrap()
}

fn mk_result(device: &str) -> String {
    format!(
        r#"{{"request":"channel","driver":"compute-domain.nvidia.com","pool":"node-a","device":"{device}"}}"#
    )
}

fn mk_config(source: &str, requests: &str, parameters: &str) -> String {
    format!(
        r#"{{"source":"{source}","requests":{requests},"opaque":{{"driver":"compute-domain.nvidia.com","parameters":{parameters}}}}}"#
    )
}

fn mk_parameters(more: &str) -> String {
    format!(
        r#"{{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"{DOMAIN}"{more}}}"#
    )
}

fn request(results: &str, parameters: &str) -> Result<ChannelRequest, PrepareError> {
    ChannelRequest::from_status(&mk_status(
        results,
        &mk_config("FromClaim", r#"["channel"]"#, parameters),
    ))
}

#[test]
fn the_template_of_a_domain_requests_the_allocated_channel() {
    for (device, id) in [("channel-0", 0), ("channel-7", 7)] {
        let request = request(
            &mk_result(device),
            &mk_parameters(r#","allocationMode":"Single""#),
        )
        .unwrap();
        assert_eq!(request.device_channel.get(), id);
        assert_eq!(
            (request.domain.as_str(), request.pool.as_str()),
            (DOMAIN, "node-a")
        );
    }
}

// req: NODE-3
#[test]
fn mode_single_and_no_mode_are_accepted_and_every_other_word_is_permanently_refused() {
    for mode in [
        "",
        r#","allocationMode":"""#,
        r#","allocationMode":"Single""#,
        r#","allocationMode":null"#,
    ] {
        assert!(
            request(&mk_result("channel-0"), &mk_parameters(mode)).is_ok(),
            "{mode}"
        );
    }
    for mode in ["All", "foo", "single"] {
        let error = request(
            &mk_result("channel-0"),
            &mk_parameters(&format!(r#","allocationMode":"{mode}""#)),
        )
        .unwrap_err();
        assert_eq!(error.class(), crate::Class::Permanent);
        assert!(error.to_string().contains(&format!("{mode:?}")), "{error}");
    }
}

// req: NODE-2
#[test]
fn no_device_or_two_of_ours_is_refused_and_other_drivers_devices_do_not_count() {
    let two = format!("{},{}", mk_result("channel-0"), mk_result("channel-1"));
    let foreign = mk_result("channel-0").replace("compute-domain.nvidia.com", "gpu.nvidia.com");
    let parameters = mk_parameters("");
    assert!(matches!(
        request(&two, &parameters),
        Err(PrepareError::NotOneResult { found: 2, .. })
    ));
    assert!(matches!(
        request(&foreign, &parameters),
        Err(PrepareError::NotOneResult { found: 0, .. })
    ));
    assert!(
        request(
            &format!("{foreign},{}", mk_result("channel-0")),
            &parameters
        )
        .is_ok()
    );
}

#[test]
fn a_claim_without_allocation_is_refused() {
    let error = ChannelRequest::from_status(&ClaimStatus::default()).unwrap_err();
    assert!(matches!(error, PrepareError::NotOneResult { found: 0, .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("the claim has 0 devices of compute-domain.nvidia.com;"),
        "{text}"
    );
}

// req: NODE-1
#[test]
fn an_unknown_field_is_named() {
    let error = request(
        &mk_result("channel-0"),
        &mk_parameters(r#","unexpectedField":1"#),
    )
    .unwrap_err();
    let text = dra_common::error_chain(&error);
    assert_eq!(
        text,
        r#"error decoding config parameters: strict decoding error: unknown field "unexpectedField""#
    );
}

// req: NODE-4
#[test]
fn a_daemon_claim_and_a_device_that_is_no_channel_are_refused() {
    let daemon = mk_parameters("").replace("ChannelConfig", "DaemonConfig");
    // Also for a channel device.
    for device in ["daemon-0", "channel-0"] {
        let error = request(&mk_result(device), &daemon).unwrap_err();
        assert_eq!(
            (error.code(), error.class()),
            ("daemon-claim", crate::Class::Permanent)
        );
        let text = error.to_string();
        let begins = "ComputeDomain daemon claims are not supported when imex.mode=hostManaged";
        assert!(text.starts_with(begins), "{text}");
        assert!(text.contains("driverManaged"), "{text}");
    }
    let error = request(&mk_result("daemon-0"), &mk_parameters("")).unwrap_err();
    assert_eq!(
        (error.code(), error.class()),
        ("not-a-channel", crate::Class::Permanent)
    );
    assert!(error.to_string().contains("daemon-0"), "{error}");
}

// req: NODE-5
#[test]
fn admin_access_is_refused() {
    let result = mk_result("channel-0").replace("\"pool\"", "\"adminAccess\":true,\"pool\"");
    let error = request(&result, &mk_parameters("")).unwrap_err();
    assert_eq!(
        (error.code(), error.class()),
        ("admin-access", crate::Class::Permanent)
    );
    assert!(error.to_string().contains("adminAccess"), "{error}");
}

// req: KUBELET-54
#[test]
fn a_config_of_the_claim_overrides_one_of_the_class_in_any_order() {
    let all = mk_config(
        "FromClass",
        "[]",
        &mk_parameters(r#","allocationMode":"All""#),
    );
    let single = mk_config("FromClaim", "[]", &mk_parameters(""));
    let status = mk_status(&mk_result("channel-0"), &format!("{single},{all}"));
    assert!(ChannelRequest::from_status(&status).is_ok());
}

// req: KUBELET-20
#[test]
fn a_config_for_the_base_request_applies_to_its_subrequests() {
    let result = mk_result("channel-0").replace("\"channel\"", "\"channel/share\"");
    let result = result.replace("\"pool\"", "\"shareID\":\"s-1\",\"pool\"");
    let request = request(&result, &mk_parameters("")).unwrap();
    assert_eq!(request.request, "channel");
    assert_eq!(request.share_id.as_deref(), Some("s-1"));
}

#[test]
fn a_claim_with_configs_for_other_requests_has_none() {
    let other = mk_config("FromClaim", r#"["gpu"]"#, &mk_parameters(""));
    let error =
        ChannelRequest::from_status(&mk_status(&mk_result("channel-0"), &other)).unwrap_err();
    assert!(matches!(error, PrepareError::NoConfig { request, .. } if request == "channel"));
}

#[test]
fn a_claim_for_a_channel_device_gets_no_hint_about_a_template() {
    let other = mk_config("FromClaim", r#"["gpu"]"#, &mk_parameters(""));
    let two = |device: &str| format!("{0},{0}", mk_result(device));
    for (results, code) in [
        (mk_result as fn(&str) -> String, "no-config"),
        (two, "not-one-device"),
    ] {
        for (device, names_template) in [("channel-0", true), ("channel-3", false)] {
            let status = mk_status(&results(device), &other);
            let error = ChannelRequest::from_status(&status).unwrap_err();
            assert_eq!(error.code(), code);
            let names = error.hint().contains("ResourceClaimTemplate");
            assert_eq!(names, names_template, "{code} {device}: {}", error.hint());
        }
    }
}

// req: NODE-15
#[test]
fn a_domain_id_that_is_not_a_uid_is_refused_without_a_look_up_of_the_domain() {
    for id in ["not-a-uid", "train", &DOMAIN.to_uppercase(), &DOMAIN[1..]] {
        let parameters = mk_parameters("").replace(DOMAIN, id);
        let error = request(&mk_result("channel-0"), &parameters).unwrap_err();
        assert_eq!(
            (error.code(), error.class()),
            ("config-domain-id", crate::Class::Permanent)
        );
        let text = format!("domainID {id} is not the UID of a ComputeDomain");
        assert_eq!(error.to_string(), text);
    }
}
