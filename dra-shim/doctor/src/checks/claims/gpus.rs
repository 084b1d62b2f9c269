//! Checks that each GPU and MIG device belongs to one claim, or is shared by claims.

use std::collections::BTreeMap;

use crate::facts::claims::ClaimFacts;
use crate::facts::claims::checkpoint_file::RecordFacts;
use crate::finding::Finding;
use crate::text::and_more;

/// Returns nothing for records of an earlier boot: their claims are not prepared.
pub(super) fn check(facts: &ClaimFacts) -> Vec<Finding> {
    if facts.earlier_boot().is_some() {
        return vec![];
    }
    let mut holders: BTreeMap<&str, Vec<(&str, &RecordFacts)>> = BTreeMap::new();
    let records = facts.records().into_iter().flatten();
    for (uid, record) in records.filter(|(uid, _)| facts.may_be_live(uid)) {
        for device in &record.gpus {
            holders.entry(device).or_default().push((uid, record));
        }
    }
    let file = facts.root.checkpoint();
    let contested = holders.into_iter().filter_map(|(device, claims)| {
        let [first, second, others @ ..] = claims.as_slice() else {
            return None;
        };
        Some(Finding::error(
            "gpu-of-two-claims",
            format!("device {device}"),
            format!(
                "according to {file}, this device is prepared for {} and for {}{}, without adminAccess or shares",
                claim(first),
                claim(second),
                and_more(others.len())
            ),
            "delete all of these claims but one, and the pods that use the deleted claims",
        ))
    });
    contested.collect()
}

fn claim((uid, record): &(&str, &RecordFacts)) -> String {
    match &record.name {
        Some(name) => format!("claim {uid} ({name})"),
        None => format!("claim {uid}"),
    }
}
