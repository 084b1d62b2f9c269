//! Checks the devices that a driver returns against the claim.
//!
//! kubelet accepts all of them. If containers can still start, a mismatch is only logged. A
//! CDI id that every runtime rejects becomes the claim's error: the pod gets an event,
//! instead of a container that never starts.

use std::collections::BTreeSet;
use std::fmt;

use crate::claim::Claim;
use crate::driver::PreparedDevice;
use crate::error::ClaimError;
use crate::names::is_cdi_id;
use dra_claim::{DeviceResult, base_request};

/// Maximum number of mismatches in one log line.
const MAX_LOGGED: usize = 5;

/// A problem of a prepared device that the runtime accepts.
#[derive(Debug, PartialEq, Eq)]
enum Mismatch<'a> {
    NotAllocated,
    ShareId,
    Duplicate,
    UnknownRequest(&'a str),
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllocated => f.write_str("is not allocated to the claim"),
            Self::ShareId => {
                f.write_str("has a share id that is in none of the device's allocation results")
            }
            Self::Duplicate => f.write_str("is returned twice with the same share id"),
            Self::UnknownRequest(name) => {
                write!(
                    f,
                    "refers to the request `{name}`, which has no allocation result"
                )
            }
        }
    }
}

/// Returns the devices, or an error if a CDI id is invalid for every runtime.
// req: KUBELET-23
pub(crate) fn check(
    claim: &Claim,
    devices: Vec<PreparedDevice>,
) -> Result<Vec<PreparedDevice>, ClaimError> {
    let mut ids = devices.iter().flat_map(|device| &device.cdi_ids);
    if let Some(id) = ids.find(|id| !is_cdi_id(id)) {
        let error = format_args!("the driver returned `{id}`, which is not a valid CDI device id");
        return Err(ClaimError::permanent(error).with_code("invalid-cdi-id"));
    }
    let mismatches = mismatches(claim, &devices);
    if !mismatches.is_empty() {
        let logged = mismatches.iter().take(MAX_LOGGED);
        let logged =
            logged.map(|(device, what)| format!("{}/{} {what}", device.pool, device.device));
        tracing::warn!(
            uid = %claim.id.uid,
            count = mismatches.len(),
            mismatches = logged.collect::<Vec<_>>().join("; "),
            "the prepared devices do not match the claim; kubelet accepts them anyway"
        );
    }
    warn_about_missing_devices(claim, &devices);
    Ok(devices)
}

/// Warns about allocation results without a device. An empty list is no mistake: some drivers
/// return no devices.
fn warn_about_missing_devices(claim: &Claim, devices: &[PreparedDevice]) {
    let results = results_without_device(claim, devices);
    if devices.is_empty() || results.is_empty() {
        return;
    }
    let logged = results.iter().take(MAX_LOGGED);
    let logged = logged.map(|result| {
        let (pool, device, request) = (result.pool(), result.device(), result.request());
        format!("{pool}/{device} for request {request}")
    });
    tracing::warn!(
        uid = %claim.id.uid,
        count = results.len(),
        missing = logged.collect::<Vec<_>>().join("; "),
        "the driver returned no device for some of the claim's allocation results; containers start without them"
    );
}

/// The allocation results without a device.
fn results_without_device<'a>(
    claim: &'a Claim,
    devices: &[PreparedDevice],
) -> Vec<&'a DeviceResult> {
    let has_device = |result: &DeviceResult| {
        let mut found = devices.iter();
        found.any(|device| device.is_at(result) && device.has_share_of(result))
    };
    let results = claim.results.iter();
    results.filter(|result| !has_device(result)).collect()
}

fn mismatches<'a>(
    claim: &Claim,
    devices: &'a [PreparedDevice],
) -> Vec<(&'a PreparedDevice, Mismatch<'a>)> {
    let mut mismatches = Vec::new();
    let mut seen = BTreeSet::new();
    for device in devices {
        let results = || {
            let results = claim.results.iter();
            results.filter(|result| device.is_at(result))
        };
        if results().next().is_none() {
            mismatches.push((device, Mismatch::NotAllocated));
        } else if !results().any(|result| device.has_share_of(result)) {
            mismatches.push((device, Mismatch::ShareId));
        }
        if !seen.insert((&device.pool, &device.device, &device.share_id)) {
            mismatches.push((device, Mismatch::Duplicate));
        }
        for name in &device.requests {
            let mut known = claim.results.iter().map(DeviceResult::base_request);
            if !known.any(|known| known == base_request(name)) {
                mismatches.push((device, Mismatch::UnknownRequest(name)));
            }
        }
    }
    mismatches
}

// === impl PreparedDevice ===

impl PreparedDevice {
    fn is_at(&self, result: &DeviceResult) -> bool {
        (self.pool.as_str(), self.device.as_str()) == (result.pool(), result.device())
    }

    fn has_share_of(&self, result: &DeviceResult) -> bool {
        self.share_id.as_deref() == result.share_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;
    use dra_claim::ClaimRef;

    fn mk_claim() -> Claim {
        let id = ClaimRef {
            namespace: "ns".into(),
            name: "c".into(),
            uid: "u".into(),
        };
        let json = r#"{"metadata": {"uid": "u"}, "status": {"allocation": {"devices": {"results": [
            {"request": "a/fast", "driver": "d", "pool": "n", "device": "d0", "shareID": "s-1"},
            {"request": "a/fast", "driver": "d", "pool": "n", "device": "d0", "shareID": "s-2"},
            {"request": "b", "driver": "d", "pool": "n", "device": "d1"}]}}}}"#;
        Claim::parse(json, &id, "d").unwrap()
    }

    fn mk_device(device: &str, share_id: Option<&str>) -> PreparedDevice {
        PreparedDevice {
            requests: vec!["a".into()],
            pool: "n".into(),
            device: device.into(),
            cdi_ids: vec!["example.com/lamp=u".into()],
            share_id: share_id.map(Into::into),
        }
    }

    fn found(devices: &[PreparedDevice]) -> Vec<Mismatch<'_>> {
        let mismatches = mismatches(&mk_claim(), devices);
        mismatches.into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn one_device_per_result_matches() {
        let mut last = mk_device("d1", None);
        last.requests = vec!["b".into(), "a/fast".into()];
        let first = mk_device("d0", Some("s-1"));
        assert_eq!(found(&[first, mk_device("d0", Some("s-2")), last]), []);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn each_mismatch_with_the_claim_is_found() {
        assert_eq!(found(&[mk_device("d9", None)]), [Mismatch::NotAllocated]);
        assert_eq!(found(&[mk_device("d0", Some("s-3"))]), [Mismatch::ShareId]);
        assert_eq!(found(&[mk_device("d0", None)]), [Mismatch::ShareId]);
        let twice = [mk_device("d1", None), mk_device("d1", None)];
        assert_eq!(found(&twice), [Mismatch::Duplicate]);
        let mut stray = mk_device("d1", None);
        stray.requests.push("c".into());
        assert_eq!(found(&[stray]), [Mismatch::UnknownRequest("c")]);
    }

    #[test]
    fn a_result_without_a_device_is_found_by_its_share() {
        let claim = mk_claim();
        let of = |devices: &[PreparedDevice]| {
            let found = results_without_device(&claim, devices).into_iter();
            let found = found.map(|result| (result.device(), result.share_id()));
            found.collect::<Vec<_>>()
        };
        let all = [
            mk_device("d0", Some("s-1")),
            mk_device("d0", Some("s-2")),
            mk_device("d1", None),
        ];
        assert_eq!(of(&all), []);
        assert_eq!(of(&all[..1]), [("d0", Some("s-2")), ("d1", None)]);
    }

    // req: KUBELET-23
    #[test]
    fn an_invalid_cdi_id_fails_the_claim() {
        let mut device = mk_device("d1", None);
        device.cdi_ids = vec!["a/b=c".into(), "not a cdi id".into()];
        let error = check(&mk_claim(), vec![device]).unwrap_err();
        assert_eq!(error.code(), "invalid-cdi-id");
        assert_eq!(error.class(), ErrorClass::Permanent);
    }
}
