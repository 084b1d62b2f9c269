//! What a driver says it has prepared, against the claim.
//!
//! kubelet believes all of it. So what its containers survive is only said aloud,
//! and what no runtime takes is the claim's error: a sentence in the pod's event
//! instead of a container that fails to start for ever.

use std::collections::BTreeSet;
use std::fmt;

use crate::claim::{Allocated, Claim, base};
use crate::driver::{ClaimError, Device};

/// As many doubts go into a line of the log.
const SAID: usize = 5;

/// What is wrong with a device of an answer, but does not hinder the runtime.
#[derive(Debug, PartialEq, Eq)]
enum Doubt<'a> {
    NotAllocated,
    ShareId,
    Twice,
    Request(&'a str),
}

impl fmt::Display for Doubt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllocated => f.write_str("is not allocated to the claim"),
            Self::ShareId => f.write_str("has a share id that its allocation results have not"),
            Self::Twice => f.write_str("comes twice with the same share id"),
            Self::Request(name) => write!(f, "names the request `{name}` of none of the results"),
        }
    }
}

/// Hands the answer on, or refuses it for a CDI id that no runtime takes.
pub(crate) fn check(claim: &Claim, devices: Vec<Device>) -> Result<Vec<Device>, ClaimError> {
    let mut ids = devices.iter().flat_map(|device| &device.cdi_ids);
    if let Some(id) = ids.find(|id| !is_cdi_id(id)) {
        let error = format_args!("the driver answered with `{id}`, which is not a CDI device id");
        return Err(ClaimError::permanent(error).with_code("invalid-cdi-id"));
    }
    let doubts = doubts(claim, &devices);
    if !doubts.is_empty() {
        let said = doubts.iter().take(SAID);
        let said = said.map(|(device, doubt)| format!("{}/{} {doubt}", device.pool, device.device));
        tracing::warn!(
            uid = %claim.id.uid,
            count = doubts.len(),
            doubts = said.collect::<Vec<_>>().join("; "),
            "the driver's answer does not fit the claim; kubelet takes it all the same"
        );
    }
    Ok(devices)
}

fn doubts<'a>(claim: &Claim, devices: &'a [Device]) -> Vec<(&'a Device, Doubt<'a>)> {
    let mut doubts = Vec::new();
    let mut seen = BTreeSet::new();
    for device in devices {
        let results = || {
            let is_it = |it: &&Allocated| it.pool == device.pool && it.device == device.device;
            claim.results.iter().filter(is_it)
        };
        if results().next().is_none() {
            doubts.push((device, Doubt::NotAllocated));
        } else if !results().any(|it| it.share_id == device.share_id) {
            doubts.push((device, Doubt::ShareId));
        }
        if !seen.insert((&device.pool, &device.device, &device.share_id)) {
            doubts.push((device, Doubt::Twice));
        }
        for name in &device.requests {
            let mut known = claim.results.iter().map(Allocated::base_request);
            if !known.any(|known| known == base(name)) {
                doubts.push((device, Doubt::Request(name)));
            }
        }
    }
    doubts
}

/// `vendor/class=name` with the characters that the CDI specification (1.1.0,
/// "kind" and "name") allows in each part.
pub(crate) fn is_cdi_id(id: &str) -> bool {
    let Some((kind, name)) = id.split_once('=') else {
        return false;
    };
    let Some((vendor, class)) = kind.split_once('/') else {
        return false;
    };
    let is_kind = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic()) && is_made_of(part, "_-.")
    };
    is_kind(vendor) && is_kind(class) && is_made_of(name, "_-.:")
}

/// ASCII letters and digits, between them these characters too.
fn is_made_of(part: &str, between: &str) -> bool {
    let at_ends = |end: Option<char>| end.is_some_and(|it| it.is_ascii_alphanumeric());
    at_ends(part.chars().next())
        && at_ends(part.chars().next_back())
        && part
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || between.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::ClaimRef;

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

    fn mk_device(device: &str, share_id: Option<&str>) -> Device {
        Device {
            requests: vec!["a".into()],
            pool: "n".into(),
            device: device.into(),
            cdi_ids: vec!["example.com/lamp=u".into()],
            share_id: share_id.map(Into::into),
        }
    }

    fn said(devices: &[Device]) -> Vec<Doubt<'_>> {
        let doubts = doubts(&mk_claim(), devices);
        doubts.into_iter().map(|(_, doubt)| doubt).collect()
    }

    #[test]
    fn one_device_per_result_raises_no_doubt() {
        let mut last = mk_device("d1", None);
        last.requests = vec!["b".into(), "a/fast".into()];
        let first = mk_device("d0", Some("s-1"));
        assert_eq!(said(&[first, mk_device("d0", Some("s-2")), last]), []);
        assert_eq!(said(&[]), []);
    }

    #[test]
    fn each_thing_that_does_not_fit_the_claim_is_said() {
        assert_eq!(said(&[mk_device("d9", None)]), [Doubt::NotAllocated]);
        assert_eq!(said(&[mk_device("d0", Some("s-3"))]), [Doubt::ShareId]);
        assert_eq!(said(&[mk_device("d0", None)]), [Doubt::ShareId]);
        let twice = [mk_device("d1", None), mk_device("d1", None)];
        assert_eq!(said(&twice), [Doubt::Twice]);
        let mut stray = mk_device("d1", None);
        stray.requests.push("c".into());
        assert_eq!(said(&[stray]), [Doubt::Request("c")]);
    }

    #[test]
    fn an_id_that_no_runtime_takes_is_the_claims_error() {
        let good = ["a/b=c", "vendor.example.com/my_class-1=0", "v/c=a:b.c-d_e"];
        for id in good {
            assert!(is_cdi_id(id), "{id}");
        }
        let bad = [
            "",
            "a",
            "a/b",
            "a=b",
            "/b=c",
            "a/=c",
            "a/b=",
            "1a/b=c",
            "a/b/c=d",
            "a/b=c ",
            "a/b=-c",
            "a/b=ä",
            "a./b=c",
            "a/b=c=d",
            "not a cdi id",
        ];
        for id in bad {
            assert!(!is_cdi_id(id), "{id}");
            let mut device = mk_device("d1", None);
            device.cdi_ids = vec!["a/b=c".into(), id.into()];
            let error = check(&mk_claim(), vec![device]).unwrap_err();
            assert_eq!(error.code(), "invalid-cdi-id");
            assert_eq!(error.class(), crate::driver::Class::Permanent);
        }
    }
}
