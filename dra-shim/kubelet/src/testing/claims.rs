//! kubelet's record of claims (`dra_manager_state`). Whether a claim is prepared is only in
//! memory.

use std::collections::{BTreeMap, BTreeSet};

use super::options::RepeatedPrepare;
use super::pod::PodClaim;
use crate::driver::PreparedDevice;
use dra_claim::ClaimRef;

/// The claims by namespace and name, as in kubelet.
pub(super) struct Claims {
    records: BTreeMap<(String, String), Record>,
    repeated_prepare: RepeatedPrepare,
}

struct Record {
    claim: ClaimRef,
    pods: BTreeSet<String>,
    /// The devices by driver, from the first attempt on for every driver of the allocation.
    devices: BTreeMap<String, Vec<PreparedDevice>>,
    /// Not in the checkpoint: a new process prepares the claim again for the next pod.
    prepared: bool,
}

impl Claims {
    pub(super) const fn new(repeated_prepare: RepeatedPrepare) -> Self {
        Self {
            records: BTreeMap::new(),
            repeated_prepare,
        }
    }

    pub(super) fn forget_prepared(&mut self) {
        for record in self.records.values_mut() {
            record.prepared = false;
        }
    }

    /// Records the pod with its claims, and returns the claims that need a Prepare.
    ///
    /// Fact: another UID under a recorded name is refused until the old claim is unprepared.
    pub(super) fn admit<'a>(
        &mut self,
        pod: &str,
        claims: &'a [PodClaim],
    ) -> Result<Vec<&'a PodClaim>, String> {
        let mut to_prepare = Vec::new();
        for wanted in claims {
            let record = self.records.entry(key(&wanted.claim));
            let record = record.or_insert_with(|| Record {
                claim: wanted.claim.clone(),
                pods: BTreeSet::new(),
                devices: BTreeMap::new(),
                prepared: false,
            });
            if record.claim.uid != wanted.claim.uid {
                return Err(format!(
                    "old ResourceClaim with same name {} and different UID {} still exists (previous pod force-deleted?!)",
                    record.claim.name, record.claim.uid
                ));
            }
            record.pods.insert(pod.to_owned());
            for driver in &wanted.drivers {
                record.devices.entry(driver.clone()).or_default();
            }
            if !record.prepared {
                to_prepare.push(wanted);
            }
        }
        Ok(to_prepare)
    }

    pub(super) fn add_devices(
        &mut self,
        claim: &ClaimRef,
        driver: &str,
        devices: Vec<PreparedDevice>,
    ) {
        let Some(record) = self.records.get_mut(&key(claim)) else {
            return;
        };
        let recorded = record.devices.entry(driver.to_owned()).or_default();
        if self.repeated_prepare == RepeatedPrepare::Replace {
            recorded.clear();
        }
        recorded.extend(devices);
    }

    pub(super) fn set_prepared(&mut self, claim: &ClaimRef) {
        if let Some(record) = self.records.get_mut(&key(claim)) {
            record.prepared = true;
        }
    }

    /// Returns the claims that only `pod` has, with their drivers: they must be unprepared before
    /// the pod can end. Removes the pod from all other claims.
    pub(super) fn release(&mut self, pod: &str) -> Vec<(ClaimRef, Vec<String>)> {
        let mut last = Vec::new();
        for record in self.records.values_mut() {
            if !record.pods.contains(pod) {
                continue;
            }
            if record.pods.len() == 1 {
                record.prepared = false;
                let drivers = record.devices.keys().cloned().collect();
                last.push((record.claim.clone(), drivers));
            } else {
                record.pods.remove(pod);
            }
        }
        last
    }

    pub(super) fn remove(&mut self, claim: &ClaimRef) {
        self.records.remove(&key(claim));
    }

    pub(super) fn pods(&self) -> BTreeSet<String> {
        let pods = self.records.values().flat_map(|record| &record.pods);
        pods.cloned().collect()
    }

    pub(super) fn devices(&self, claim: &ClaimRef) -> Option<Vec<PreparedDevice>> {
        let record = self.records.get(&key(claim))?;
        (record.claim.uid == claim.uid)
            .then(|| record.devices.values().flatten().cloned().collect())
    }
}

fn key(claim: &ClaimRef) -> (String, String) {
    (claim.namespace.clone(), claim.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_claim(uid: &str) -> PodClaim {
        PodClaim {
            claim: ClaimRef {
                namespace: "ns".into(),
                name: "c".into(),
                uid: uid.into(),
            },
            drivers: vec!["d".into()],
        }
    }

    #[test]
    fn a_shared_claim_is_prepared_once_and_released_with_its_last_pod() {
        let mut claims = Claims::new(RepeatedPrepare::Append);
        let wanted = [mk_claim("u")];
        assert_eq!(claims.admit("one", &wanted).unwrap().len(), 1);
        claims.set_prepared(&wanted[0].claim);
        assert_eq!(claims.admit("two", &wanted).unwrap().len(), 0);
        assert_eq!(claims.release("one"), []);
        let last = claims.release("two");
        assert_eq!(last, [(wanted[0].claim.clone(), vec!["d".to_owned()])]);
    }

    #[test]
    fn another_claim_under_a_recorded_name_is_refused_in_kubelets_words() {
        let mut claims = Claims::new(RepeatedPrepare::Append);
        claims.admit("one", &[mk_claim("old")]).unwrap();
        let error = claims.admit("two", &[mk_claim("new")]).unwrap_err();
        assert!(error.contains("different UID old still exists"), "{error}");
    }

    #[test]
    fn a_repeated_answer_is_appended_or_replaces_the_first() {
        for (repeated, count) in [(RepeatedPrepare::Append, 2), (RepeatedPrepare::Replace, 1)] {
            let mut claims = Claims::new(repeated);
            let wanted = [mk_claim("u")];
            claims.admit("one", &wanted).unwrap();
            for _ in 0..2 {
                claims.add_devices(&wanted[0].claim, "d", vec![PreparedDevice::default()]);
            }
            assert_eq!(claims.devices(&wanted[0].claim).unwrap().len(), count);
        }
    }
}
