//! A claim as a driver sees it: its identity, the allocation results and configs of
//! that driver, and the status exactly as the API server sent it.

use std::collections::BTreeMap;
use std::fmt;

use dra_common::Advice;
use serde_json::value::RawValue;

mod json;

/// A claim's identity. The UID alone identifies it: another claim may have the same
/// name later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRef {
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
}

impl fmt::Display for ClaimRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.name, self.uid)
    }
}

/// An allocated claim, reduced to what concerns one driver.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Namespace, name and UID. The UID is the one that kubelet asked for.
    pub id: ClaimRef,
    /// `metadata.labels`: written by users too, so untrusted.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`: as untrusted.
    pub annotations: BTreeMap<String, String>,
    /// This driver's entries of `status.allocation.devices.results`, in order.
    /// Never empty for a claim that kubelet asked for: it skips other drivers.
    pub results: Vec<AllocationResult>,
    /// This driver's entries of `status.allocation.devices.config`, in order:
    /// those of the class first. Later entries override earlier ones.
    pub configs: Vec<OpaqueConfig>,
    /// `.status` byte for byte, for drivers that store or compare all of it.
    pub status: Box<RawValue>,
}

/// One allocation result (`DeviceRequestAllocationResult`). Its other fields are in
/// [`Claim::status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationResult {
    /// `request`; with a prioritized list, `request/subrequest`.
    pub request: String,
    /// `pool`
    pub pool: String,
    /// `device`
    pub device: String,
    /// `adminAccess`: the device is not reserved for this claim and may be in use.
    pub admin_access: bool,
    /// `shareID`, if the device allows several allocations.
    pub share_id: Option<String>,
    /// `consumedCapacity`: how much of each capacity of the device the scheduler has set aside
    /// for this result, by the capacity's name. At least what the claim asked for, since the
    /// device's request policy may round it up; all of it for a claim that did not ask and a
    /// device without a default. Quantities as the API has them (`1`, `500m`, `10Gi`). Empty
    /// unless the device allows several allocations.
    pub consumed_capacity: BTreeMap<String, String>,
}

impl AllocationResult {
    /// The request's name without the subrequest, as containers refer to it and as
    /// [`PreparedDevice::requests`](crate::PreparedDevice::requests) needs it.
    pub fn base_request(&self) -> &str {
        base_request(&self.request)
    }
}

/// One opaque configuration for this driver.
#[derive(Clone, Debug)]
pub struct OpaqueConfig {
    /// Who wrote it.
    pub source: ConfigSource,
    /// `requests`: the requests that it applies to, see [`OpaqueConfig::applies_to`].
    pub requests: Vec<String>,
    /// `opaque.parameters` byte for byte: untrusted user input, validated by nobody.
    pub parameters: Box<RawValue>,
}

impl OpaqueConfig {
    /// Whether it applies to an allocation result: it names no request at all, the
    /// result's request, or the base name of that.
    // req: KUBELET-20
    pub fn applies_to(&self, result: &AllocationResult) -> bool {
        self.requests.is_empty()
            || self
                .requests
                .iter()
                .any(|name| *name == result.request || name == result.base_request())
    }
}

/// Who wrote a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// The administrator, in the `DeviceClass`.
    Class,
    /// The user, in the claim.
    Claim,
}

/// Why a claim object cannot be prepared.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum ClaimObjectError {
    /// The object has another UID than the claim that kubelet asked for.
    #[error("the ResourceClaim was replaced by another one of the same name")]
    #[advice(code = "claim-replaced")]
    Replaced,
    /// It has no allocation.
    #[error("the ResourceClaim is not allocated")]
    #[advice(code = "claim-not-allocated")]
    NotAllocated,
    /// It does not match the schema of `resource.k8s.io/v1`.
    #[error("the ResourceClaim's allocation is not readable")]
    #[advice(code = "claim-malformed")]
    Malformed(#[source] serde_json::Error),
    /// A config of this driver has a source other than class and claim.
    #[error("the ResourceClaim has a configuration from an unknown source `{0}`")]
    #[advice(code = "claim-config-source")]
    UnknownConfigSource(String),
    /// A config of this driver has no parameters.
    #[error("the ResourceClaim has a configuration without parameters")]
    #[advice(code = "claim-config-empty")]
    NoParameters,
}

// === impl Claim ===

impl Claim {
    /// Parses the JSON text of a `resource.k8s.io/v1 ResourceClaim` for `driver`, and
    /// checks that it is the claim `id` and that it is allocated.
    ///
    /// # Errors
    ///
    /// It is another claim, not allocated, or malformed where `driver` is concerned.
    // req: KUBELET-17, KUBELET-18, KUBELET-19
    pub fn parse(json: &str, id: &ClaimRef, driver: &str) -> Result<Self, ClaimObjectError> {
        let object: json::Object<'_> =
            serde_json::from_str(json).map_err(ClaimObjectError::Malformed)?;
        if object.metadata.uid != id.uid {
            return Err(ClaimObjectError::Replaced);
        }
        let status = object.status.ok_or(ClaimObjectError::NotAllocated)?;
        let parsed: json::Status<'_> =
            serde_json::from_str(status.get()).map_err(ClaimObjectError::Malformed)?;
        let devices = parsed
            .allocation
            .ok_or(ClaimObjectError::NotAllocated)?
            .devices;
        let results = devices
            .results
            .into_iter()
            .filter(|result| result.driver == driver);
        Ok(Self {
            id: id.clone(),
            labels: object.metadata.labels.unwrap_or_default(),
            annotations: object.metadata.annotations.unwrap_or_default(),
            results: results.map(allocation_result).collect(),
            configs: configs(devices.config, driver)?,
            status: status.to_owned(),
        })
    }
}

/// `request` of both `request` and `request/subrequest`.
pub(crate) fn base_request(request: &str) -> &str {
    request.split_once('/').map_or(request, |(base, _)| base)
}

fn allocation_result(json: json::AllocationResult) -> AllocationResult {
    AllocationResult {
        request: json.request,
        pool: json.pool,
        device: json.device,
        admin_access: json.admin_access.unwrap_or(false),
        share_id: json.share_id,
        consumed_capacity: json.consumed_capacity.unwrap_or_default(),
    }
}

fn configs(
    entries: Vec<json::Config<'_>>,
    driver: &str,
) -> Result<Vec<OpaqueConfig>, ClaimObjectError> {
    let ours = entries.into_iter().filter_map(|entry| {
        let opaque = entry.opaque.filter(|opaque| opaque.driver == driver)?;
        Some((entry.source, entry.requests, opaque.parameters))
    });
    ours.map(|(source, requests, parameters)| {
        Ok(OpaqueConfig {
            source: match source.as_str() {
                "FromClass" => ConfigSource::Class,
                "FromClaim" => ConfigSource::Claim,
                _ => return Err(ClaimObjectError::UnknownConfigSource(source)),
            },
            requests: requests.unwrap_or_default(),
            parameters: parameters.ok_or(ClaimObjectError::NoParameters)?.to_owned(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{"allocation": {"devices": {"results": [
        {"request": "a/fast", "driver": "ours", "pool": "n", "device": "d0", "adminAccess": true},
        {"request": "b", "driver": "theirs", "pool": "n", "device": "x"},
        {"request": "c", "driver": "ours", "pool": "n", "device": "d1", "shareID": "s-1",
            "consumedCapacity": {"slots": "1", "ours.example.com/memory": "10Gi"}}],
      "config": [
        {"source": "FromClass", "opaque": {"driver": "ours", "parameters": {"z": 1,   "a": 2}}},
        {"source": "FromTheFuture", "opaque": {"driver": "theirs", "parameters": {}}},
        {"source": "FromClaim", "requests": ["a"], "opaque": {"driver": "ours", "parameters": {}}}]}},
      "reservedFor": null, "newField": 1}"#;

    fn mk_ref(uid: &str) -> ClaimRef {
        ClaimRef {
            namespace: "ns".into(),
            name: "c".into(),
            uid: uid.into(),
        }
    }

    fn mk_object(status: &str) -> String {
        format!(r#"{{"kind": "ResourceClaim", "metadata": {{"uid": "u1"}}, "status": {status}}}"#)
    }

    // req: KUBELET-19
    #[test]
    fn only_the_drivers_own_results_and_configs_are_handed_over() {
        let claim = Claim::parse(&mk_object(STATUS), &mk_ref("u1"), "ours").unwrap();
        let devices: Vec<_> = claim.results.iter().map(|r| r.device.as_str()).collect();
        assert_eq!(devices, ["d0", "d1"]);
        assert!(claim.results[0].admin_access);
        assert_eq!(claim.results[1].share_id.as_deref(), Some("s-1"));
        assert_eq!(claim.results[0].consumed_capacity, BTreeMap::new());
        let consumed = [("ours.example.com/memory", "10Gi"), ("slots", "1")];
        let consumed = consumed.map(|(name, amount)| (name.to_owned(), amount.to_owned()));
        assert_eq!(claim.results[1].consumed_capacity, consumed.into());
        let sources: Vec<_> = claim.configs.iter().map(|c| c.source).collect();
        assert_eq!(sources, [ConfigSource::Class, ConfigSource::Claim]);
    }

    #[test]
    fn status_and_parameters_keep_their_bytes() {
        let claim = Claim::parse(&mk_object(STATUS), &mk_ref("u1"), "ours").unwrap();
        assert_eq!(claim.status.get(), STATUS);
        assert_eq!(claim.configs[0].parameters.get(), r#"{"z": 1,   "a": 2}"#);
    }

    #[test]
    fn labels_and_annotations_are_handed_over_and_may_be_absent_or_null() {
        for (metadata, label, annotation) in [
            (
                r#", "labels": {"a": "1"}, "annotations": {"a": "2"}"#,
                Some("1"),
                Some("2"),
            ),
            (r#", "labels": null, "annotations": null"#, None, None),
            ("", None, None),
        ] {
            let object = mk_object(STATUS).replace("\"u1\"", &format!("\"u1\"{metadata}"));
            let claim = Claim::parse(&object, &mk_ref("u1"), "ours").unwrap();
            assert_eq!(claim.labels.get("a").map(String::as_str), label);
            assert_eq!(claim.annotations.get("a").map(String::as_str), annotation);
        }
    }

    // req: KUBELET-20
    #[test]
    fn a_config_applies_to_all_requests_or_to_the_base_name_or_the_exact_one() {
        let claim = Claim::parse(&mk_object(STATUS), &mk_ref("u1"), "ours").unwrap();
        assert_eq!(claim.results[0].base_request(), "a");
        assert!(claim.configs[0].applies_to(&claim.results[1]));
        assert!(claim.configs[1].applies_to(&claim.results[0]));
        assert!(!claim.configs[1].applies_to(&claim.results[1]));
    }

    // req: KUBELET-17
    #[test]
    fn a_claim_replaced_under_the_same_name_is_refused() {
        let error = Claim::parse(&mk_object(STATUS), &mk_ref("u2"), "ours").unwrap_err();
        assert!(matches!(error, ClaimObjectError::Replaced));
    }

    // req: KUBELET-18
    #[test]
    fn a_claim_without_allocation_is_refused() {
        for status in ["null", "{}", r#"{"allocation": null}"#] {
            let error = Claim::parse(&mk_object(status), &mk_ref("u1"), "ours").unwrap_err();
            assert!(
                matches!(error, ClaimObjectError::NotAllocated),
                "{status}: {error}"
            );
        }
    }
}
