//! kubelet's own checkpoint of prepared claims, `dra_manager_state`.
//!
//! A JSON object with `Data`, a JSON document as a string, and `Checksum`, the CRC-32 (IEEE) of
//! the bytes of `Data` (`pkg/kubelet/cm/dra/state` of Kubernetes 1.34).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::dra_driver::DraDriver;

/// The file's name, below kubelet's root directory.
pub const KUBELET_STATE_FILE: &str = "dra_manager_state";

/// The version in Kubernetes 1.34, also assumed for a file without a version.
const API_VERSION: &str = "checkpoint.dra.kubelet.k8s.io/v1";

/// kubelet's state of the claims that a driver prepared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletState {
    /// By UID.
    pub claims: BTreeMap<String, KubeletClaim>,
}

/// kubelet's state of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletClaim {
    /// `namespace/name`.
    pub name: String,
    /// Whether the driver has answered: kubelet writes the claim before its call, without
    /// devices.
    pub prepared: bool,
    /// The UIDs of the pods that use the claim, also of those that were added after the
    /// driver's answer.
    pub pods: BTreeSet<String>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct KubeletStateError {
    message: String,
    is_damage: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
/// The file.
struct Outer {
    data: String,
    checksum: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
/// The document in the file's `Data`.
struct Data {
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    claim_info_state_list: Option<Vec<Claim>>,
}

#[derive(Deserialize)]
struct Claim {
    #[serde(rename = "ClaimUID")]
    uid: String,
    #[serde(rename = "ClaimName")]
    name: String,
    #[serde(rename = "Namespace")]
    namespace: String,
    /// A set: the values are empty objects.
    #[serde(rename = "PodUIDs")]
    pods: Option<BTreeMap<String, Value>>,
    #[serde(rename = "DriverState")]
    drivers: Option<BTreeMap<String, Driver>>,
}

#[derive(Deserialize)]
struct Driver {
    #[serde(rename = "Devices")]
    devices: Option<Vec<Value>>,
}

// === impl KubeletState ===

impl KubeletState {
    /// Reads the claims of a driver from the file's content.
    pub fn decode(bytes: &[u8], driver: DraDriver) -> Result<Self, KubeletStateError> {
        let malformed = |what: &str, error: &serde_json::Error| KubeletStateError {
            message: format!("{what}: {error}"),
            // JSON of another shape may be that of another kubelet version.
            is_damage: !error.is_data(),
        };
        let outer: Outer = serde_json::from_slice(bytes)
            .map_err(|error| malformed("the file is not a kubelet checkpoint", &error))?;
        let (stored, computed) = (outer.checksum, crc32fast::hash(outer.data.as_bytes()));
        if stored != u64::from(computed) {
            return Err(KubeletStateError {
                message: format!(
                    "the stored checksum is {stored}, but the checksum of the data is {computed}"
                ),
                is_damage: true,
            });
        }
        let data: Data = serde_json::from_str(&outer.data)
            .map_err(|error| malformed("the file's data is not a list of claims", &error))?;
        // Another version may have its claims in another place.
        if let Some(version) = data.api_version.filter(|it| it != API_VERSION) {
            return Err(KubeletStateError {
                message: format!("the file's data has version {version:?}"),
                is_damage: false,
            });
        }
        let claims = data.claim_info_state_list.unwrap_or_default();
        let ours = claims.into_iter().filter_map(|claim| {
            let drivers = claim.drivers.unwrap_or_default();
            let devices = drivers.get(driver.name())?.devices.as_ref();
            let known = KubeletClaim {
                name: format!("{}/{}", claim.namespace, claim.name),
                prepared: devices.is_some_and(|devices| !devices.is_empty()),
                pods: claim.pods.unwrap_or_default().into_keys().collect(),
            };
            Some((claim.uid, known))
        });
        Ok(Self {
            claims: ours.collect(),
        })
    }
}

// === impl KubeletStateError ===

impl KubeletStateError {
    /// Whether the file is damaged, so that kubelet cannot read it either.
    pub fn is_damage(&self) -> bool {
        self.is_damage
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(data: &Value) -> Vec<u8> {
        let data = data.to_string();
        let checksum = crc32fast::hash(data.as_bytes());
        json!({"Data": data, "Checksum": checksum})
            .to_string()
            .into_bytes()
    }

    fn decode(bytes: &[u8]) -> Result<KubeletState, KubeletStateError> {
        KubeletState::decode(bytes, DraDriver::ComputeDomain)
    }

    fn claim(uid: &str, drivers: &Value) -> Value {
        json!({"ClaimUID": uid, "ClaimName": "c", "Namespace": "n", "PodUIDs": {"pod-1": {}}, "DriverState": drivers})
    }

    #[test]
    fn each_driver_has_its_own_claims_and_only_those_with_devices_are_prepared() {
        let [channels, gpus] = DraDriver::ALL.map(DraDriver::name);
        let file = file(&json!({"ClaimInfoStateList": [
            claim("1", &json!({channels: {"Devices": [{"DeviceName": "channel-0"}]}})),
            claim("2", &json!({channels: {"Devices": null}, gpus: {"Devices": [{}]}})),
            claim("3", &json!({gpus: {"Devices": [{}]}})),
        ]}));
        let prepared = |driver| {
            let claims = KubeletState::decode(&file, driver).unwrap().claims;
            let claims = claims.into_iter().map(|(uid, claim)| (uid, claim.prepared));
            claims.collect::<Vec<_>>()
        };
        let [one, two, three] = ["1", "2", "3"].map(str::to_owned);
        let of_channels = [(one, true), (two.clone(), false)];
        assert_eq!(prepared(DraDriver::ComputeDomain), of_channels);
        assert_eq!(prepared(DraDriver::Gpu), [(two, true), (three, true)]);

        let state = decode(&file).unwrap();
        assert_eq!(state.claims["1"].name, "n/c");
        assert_eq!(state.claims["1"].pods, BTreeSet::from(["pod-1".to_owned()]));
    }

    #[test]
    fn a_file_without_claims_has_none() {
        assert_eq!(decode(&file(&json!({}))).unwrap().claims.len(), 0);
    }

    #[test]
    fn an_unknown_version_is_an_error_and_no_damage() {
        let of = |version: &str| file(&json!({"apiVersion": version, "Claims": []}));
        assert!(decode(&of(API_VERSION)).is_ok());
        let error = decode(&of("checkpoint.dra.kubelet.k8s.io/v2")).unwrap_err();
        assert!(error.to_string().contains("/v2") && !error.is_damage());
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let good = String::from_utf8(file(&json!({"ClaimInfoStateList": []}))).unwrap();
        for bad in [
            good.replace("List", "Lost"),
            "{".to_owned(),
            "[]".to_owned(),
        ] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
        let old = r#"{"version":"v1","entries":[],"checksum":1}"#;
        assert!(!decode(old.as_bytes()).unwrap_err().is_damage());
        assert!(decode(b"{").unwrap_err().is_damage());
    }
}
