//! The content of a template, reduced to a hash that can be compared.

use std::hash::{DefaultHasher, Hash as _, Hasher};

use compute_domain_api::{AllocationMode, OpaqueConfig};
use k8s_openapi::api::resource::v1::{DeviceClaimConfiguration, DeviceRequest, ResourceClaimSpec};
use serde_json::Value;

/// A hash of what a template's claims request: names, device classes and shared capacity of the requests, and
/// the configs. Templates of different `ComputeDomains` with the same requests have equal contents.
///
/// Other fields are ignored: the API server adds defaults and drops unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content(u64);

// === impl Content ===

impl Content {
    /// The content of a template with this claim spec. `uid` is the UID of the ComputeDomain that the config
    /// has to name.
    pub fn new(spec: &ResourceClaimSpec, uid: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        let devices = spec.devices.as_ref();
        let requests = devices.and_then(|devices| devices.requests.as_ref());
        for request in requests.into_iter().flatten() {
            hash_request(request, &mut hasher);
        }
        "configs".hash(&mut hasher);
        let configs = devices.and_then(|devices| devices.config.as_ref());
        for config in configs.into_iter().flatten() {
            hash_config(config, uid, &mut hasher);
        }
        Self(hasher.finish())
    }
}

/// Whether the stored spec is the sent one without some of its fields, as an older API server stores it.
/// Otherwise a mutating policy or webhook has changed it.
// req: CD-11
pub fn leaves_out_only(stored: &ResourceClaimSpec, sent: &ResourceClaimSpec) -> bool {
    let json = |spec: &ResourceClaimSpec| serde_json::to_value(spec).unwrap_or_default();
    is_part(&json(stored), &json(sent))
}

fn is_part(stored: &Value, sent: &Value) -> bool {
    match (stored, sent) {
        (Value::Object(stored), Value::Object(sent)) => stored
            .iter()
            .all(|(key, value)| sent.get(key).is_none_or(|sent| is_part(value, sent))),
        (Value::Array(stored), Value::Array(sent)) => {
            let mut pairs = stored.iter().zip(sent);
            stored.len() <= sent.len() && pairs.all(|(stored, sent)| is_part(stored, sent))
        }
        (stored, sent) => stored == sent,
    }
}

fn hash_request(request: &DeviceRequest, hasher: &mut DefaultHasher) {
    request.name.hash(hasher);
    let exactly = request.exactly.as_ref();
    exactly
        .map(|exactly| &exactly.device_class_name)
        .hash(hasher);
    for alternative in request.first_available.iter().flatten() {
        (&alternative.name, &alternative.device_class_name).hash(hasher);
        let capacity = alternative.capacity.as_ref();
        let capacity = capacity.and_then(|capacity| capacity.requests.as_ref());
        for (name, quantity) in capacity.into_iter().flatten() {
            (name, &quantity.0).hash(hasher);
        }
    }
}

fn hash_config(config: &DeviceClaimConfiguration, uid: &str, hasher: &mut DefaultHasher) {
    config.requests.hash(hasher);
    let Some(opaque) = &config.opaque else {
        return;
    };
    opaque.driver.hash(hasher);
    let parameters = opaque.parameters.0.to_string();
    match OpaqueConfig::decode_strict(&parameters) {
        // An absent mode means one channel. The Go driver writes null.
        Ok(OpaqueConfig::Channel(channel)) if channel.domain_uid.as_str() == uid => {
            let mode = match &channel.allocation_mode {
                AllocationMode::Unset => &AllocationMode::Single,
                mode => mode,
            };
            mode.as_str().hash(hasher);
        }
        // We never write a config that Prepare would refuse.
        _ => parameters.hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use compute_domain_api::DomainUid;
    use serde_json::json;

    use super::*;
    use crate::template::{Form, claim_spec};

    const UID: &str = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";

    fn mk_spec(uid: &DomainUid) -> ResourceClaimSpec {
        claim_spec(uid, &AllocationMode::Single, Form::Whole)
    }

    fn ours() -> Content {
        Content::new(&mk_spec(&DomainUid::parse(UID).unwrap()), UID)
    }

    /// The content as the API server returns it, with defaults, changed by `change`.
    fn stored(change: impl FnOnce(&mut Value)) -> Content {
        Content::new(&stored_spec(change), UID)
    }

    fn stored_spec(change: impl FnOnce(&mut Value)) -> ResourceClaimSpec {
        let mut spec = json!({ "devices": {
            "requests": [{ "name": "channel", "exactly": {
                "deviceClassName": "compute-domain-default-channel.nvidia.com",
                "allocationMode": "ExactCount", "count": 1,
            } }],
            "config": [{ "requests": ["channel"], "opaque": {
                "driver": "compute-domain.nvidia.com",
                "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1",
                    "kind": "ComputeDomainChannelConfig",
                    "domainID": UID,
                    "allocationMode": "Single",
                },
            } }],
        } });
        change(&mut spec);
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn an_older_server_drops_fields_but_a_policy_changes_them() {
        let sent = mk_spec(&DomainUid::parse(UID).unwrap());
        let leaves_out = |change: fn(&mut Value)| leaves_out_only(&stored_spec(change), &sent);
        assert!(leaves_out(|_| {}));
        assert!(leaves_out(|spec| spec["devices"]["config"] = json!([])));
        assert!(leaves_out(|spec| {
            spec["devices"]["requests"][0]["exactly"] = Value::Null;
        }));
        assert!(!leaves_out(|spec| {
            spec["devices"]["requests"][0]["exactly"]["deviceClassName"] = json!("other");
        }));
        assert!(!leaves_out(|spec| {
            let request = spec["devices"]["requests"][0].clone();
            spec["devices"]["requests"]
                .as_array_mut()
                .unwrap()
                .push(request);
        }));
        assert!(!leaves_out(|spec| {
            spec["devices"]["config"][0]["opaque"]["parameters"]["domainID"] = json!("another");
        }));
    }

    #[test]
    fn the_defaults_of_the_api_server_change_nothing() {
        assert_eq!(stored(|_| {}), ours());
    }

    #[test]
    fn templates_of_two_domains_have_the_same_content() {
        let other = DomainUid::parse("other-uid").unwrap();
        let content = Content::new(&mk_spec(&other), "other-uid");
        assert_eq!(content, ours());
    }

    #[test]
    fn a_mode_that_is_null_or_absent_is_single() {
        let mode = "/devices/config/0/opaque/parameters/allocationMode";
        assert_eq!(
            stored(|spec| *spec.pointer_mut(mode).unwrap() = Value::Null),
            ours()
        );
        assert_ne!(
            stored(|spec| *spec.pointer_mut(mode).unwrap() = json!("All")),
            ours()
        );
    }

    #[test]
    fn another_class_request_name_or_config_is_another_content() {
        for (pointer, value) in [
            ("/devices/requests/0/name", json!("chan")),
            (
                "/devices/requests/0/exactly/deviceClassName",
                json!("gpu.nvidia.com"),
            ),
            ("/devices/requests", json!([])),
            ("/devices/config", json!([])),
            ("/devices/config/0/requests", json!([])),
            ("/devices/config/0/opaque/driver", json!("gpu.nvidia.com")),
            (
                "/devices/config/0/opaque/parameters/domainID",
                json!("other-uid"),
            ),
            (
                "/devices/config/0/opaque/parameters/kind",
                json!("ComputeDomainDaemonConfig"),
            ),
            ("/devices/config/0/opaque/parameters", json!({})),
            ("/devices/config/0/opaque/parameters", Value::Null),
        ] {
            let content = stored(|spec| *spec.pointer_mut(pointer).unwrap() = value.clone());
            assert_ne!(content, ours(), "{pointer} = {value}");
        }
    }
}
