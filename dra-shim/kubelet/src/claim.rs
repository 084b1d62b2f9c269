//! A claim for a driver: its identity, the driver's allocation results and configs, and the
//! whole status.

use std::collections::BTreeMap;

use dra_claim::{ClaimRef, ClaimStatus, DeviceConfig, DeviceResult};
use dra_common::Advice;
use serde::Deserialize;

/// An allocated claim, with the results and configs of one driver.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Namespace, name and UID. The UID is the one that kubelet sent.
    pub id: ClaimRef,
    /// `metadata.labels`. Users can write them, so they are untrusted.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`, untrusted too.
    pub annotations: BTreeMap<String, String>,
    /// This driver's entries of `status.allocation.devices.results`, in order.
    /// Never empty in kubelet's calls: kubelet calls only the drivers of the allocation.
    pub results: Vec<DeviceResult>,
    /// This driver's entries of `status.allocation.devices.config`, each with parameters.
    /// Those of the class come first; later entries override earlier ones.
    pub configs: Vec<DeviceConfig>,
    /// The whole `.status`, for drivers that store or compare it.
    pub status: ClaimStatus,
}

/// Error of a claim object that cannot be prepared.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum ClaimObjectError {
    /// The object's UID is not the one that kubelet sent.
    #[error("the ResourceClaim was deleted and created again with the same name")]
    #[advice(code = "claim-replaced")]
    Replaced,
    /// The claim has no allocation.
    #[error("the ResourceClaim is not allocated")]
    #[advice(code = "claim-not-allocated")]
    NotAllocated,
    /// The object does not match the schema of `resource.k8s.io/v1`.
    #[error("cannot parse the ResourceClaim")]
    #[advice(code = "claim-malformed")]
    Malformed(#[source] serde_json::Error),
    /// A config of this driver has a source other than class and claim.
    #[error("a configuration of the ResourceClaim has the unknown source `{0}`")]
    #[advice(code = "claim-config-source")]
    UnknownConfigSource(String),
    /// A config of this driver has no parameters.
    #[error("a configuration of the ResourceClaim has no parameters")]
    #[advice(code = "claim-config-empty")]
    NoParameters,
}

/// The parsed part of a claim. k8s-openapi's type would re-encode the opaque parameters.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Option<ClaimStatus>,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

// === impl Claim ===

impl Claim {
    /// Parses the JSON text of a `resource.k8s.io/v1 ResourceClaim` for `driver`, and
    /// checks that it is the claim `id` and that it is allocated.
    ///
    /// # Errors
    ///
    /// See [`ClaimObjectError`].
    // req: KUBELET-17, KUBELET-18, KUBELET-19
    pub fn parse(json: &str, id: &ClaimRef, driver: &str) -> Result<Self, ClaimObjectError> {
        let object: Object = serde_json::from_str(json).map_err(ClaimObjectError::Malformed)?;
        if object.metadata.uid != id.uid {
            return Err(ClaimObjectError::Replaced);
        }
        let status = object.status.filter(ClaimStatus::is_allocated);
        let status = status.ok_or(ClaimObjectError::NotAllocated)?;
        check_configs(&status, driver)?;
        Ok(Self {
            id: id.clone(),
            labels: object.metadata.labels.unwrap_or_default(),
            annotations: object.metadata.annotations.unwrap_or_default(),
            results: status.results_of(driver).cloned().collect(),
            configs: status.configs_of(driver).cloned().collect(),
            status,
        })
    }
}

fn check_configs(status: &ClaimStatus, driver: &str) -> Result<(), ClaimObjectError> {
    let configs = status.configs().iter();
    let mut ours = configs.filter(|config| config.driver() == Some(driver));
    ours.try_for_each(|config| match config.source() {
        Err(source) => Err(ClaimObjectError::UnknownConfigSource(source.to_owned())),
        Ok(_) if config.parameters() == "null" => Err(ClaimObjectError::NoParameters),
        Ok(_) => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use dra_claim::ConfigSource;

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
    fn a_claim_has_only_the_drivers_own_results_and_configs() {
        let claim = Claim::parse(&mk_object(STATUS), &mk_ref("u1"), "ours").unwrap();
        let devices: Vec<_> = claim.results.iter().map(DeviceResult::device).collect();
        assert_eq!(devices, ["d0", "d1"]);
        assert!(claim.results[0].admin_access());
        assert_eq!(claim.results[1].share_id(), Some("s-1"));
        assert_eq!(claim.results[0].consumed_capacity().count(), 0);
        let consumed = [("ours.example.com/memory", "10Gi"), ("slots", "1")];
        assert!(claim.results[1].consumed_capacity().eq(consumed));
        let sources: Vec<_> = claim.configs.iter().map(DeviceConfig::source).collect();
        assert_eq!(sources, [Ok(ConfigSource::Class), Ok(ConfigSource::Claim)]);
    }

    #[test]
    fn labels_and_annotations_may_be_absent_or_null() {
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
