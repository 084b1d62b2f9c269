//! The claims in the checkpoint, in the CDI directories and in kubelet's state,
//! compared.

use std::collections::BTreeMap;

use crate::facts::claims::ClaimFacts;
use crate::facts::claims::checkpoint_file::{CheckpointFile, RecordFacts};
use crate::finding::Finding;
use crate::kubelet_state::KubeletState;

type Records = BTreeMap<String, RecordFacts>;

/// A claim is compared only between places that are known: what could not be
/// read, or was lost, may have had it.
pub(super) fn check(facts: &ClaimFacts) -> Vec<Finding> {
    let checkpoint = match &facts.checkpoint {
        CheckpointFile::Read(checkpoint) => checkpoint,
        CheckpointFile::Absent => return unknown_to_plugin(facts, &Records::new()),
        CheckpointFile::Unreadable(_) => return vec![],
    };
    let records = &checkpoint.records;
    let mut findings = without_spec(facts, records);
    // What a damaged file lost is not known, so that nothing is an orphan.
    if checkpoint.damage.is_some() {
        return findings;
    }
    findings.extend(unknown_to_plugin(facts, records));
    findings.extend(orphans(facts, records));
    findings.extend(unknown_to_kubelet(facts, records));
    findings
}

/// The claims that the checkpoint has as prepared.
fn prepared(records: &Records) -> impl Iterator<Item = &String> {
    let records = records.iter();
    records.filter_map(|(uid, record)| record.is_completed.then_some(uid))
}

/// None, where there may be a spec that was not seen.
fn without_spec(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    if facts.specs.may_have_more {
        return vec![];
    }
    let file = facts.root.checkpoint();
    let without = prepared(records).filter(|uid| !facts.specs.paths.contains_key(*uid));
    without
        .map(|uid| {
            Finding::error(
                "claim-without-spec",
                format!("claim {uid}"),
                format!("{file} has it as prepared, and no CDI directory has its spec: its pods' containers cannot be created"),
                "restart the kubelet plugin of this node: it writes the spec again",
            )
        })
        .collect()
}

/// None, where the plugin is to recover what was lost: pods that are deleted for
/// that would be deleted for nothing.
fn unknown_to_plugin(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    if !facts.set_aside.is_empty() {
        return vec![];
    }
    let file = facts.root.checkpoint();
    let reason = match &facts.checkpoint {
        CheckpointFile::Absent => format!("there is no {file}"),
        CheckpointFile::Read(_) | CheckpointFile::Unreadable(_) => format!("{file} has not"),
    };
    let is_recorded = |uid: &String| records.get(uid).is_some_and(|it| it.is_completed);
    let claims = facts.kubelet_state().into_iter();
    let claims = claims.flat_map(|state| &state.claims);
    let lost = claims.filter(|(uid, claim)| claim.prepared && !is_recorded(uid));
    lost.map(|(uid, claim)| {
        let fix = if facts.specs.paths.contains_key(uid) {
            "start the kubelet plugin of this node, if it does not run: by the claim's CDI spec it notices that the record is missing, and it writes the record again once the API server has confirmed the claim"
        } else {
            "delete the pods that use it, so that it is prepared anew: neither its record nor its CDI spec is there; was the plugin's directory removed?"
        };
        Finding::error(
            "claim-unknown-to-plugin",
            format!("claim {uid} ({})", claim.name),
            format!("kubelet has it as prepared, {reason}"),
            fix,
        )
    })
    .collect()
}

/// None, where it is not known which claims were lost, or which kubelet has.
// req: DOCTOR-8
fn orphans(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    if !facts.set_aside.is_empty() || facts.kubelet.is_unusable() {
        return vec![];
    }
    let file = facts.root.checkpoint();
    // A claim that kubelet has is in use, whoever lost the record.
    let is_known = |uid: &String| {
        let has = |state: &KubeletState| state.claims.contains_key(uid);
        records.contains_key(uid) || facts.kubelet_state().is_some_and(has)
    };
    let specs = facts.specs.paths.iter();
    let orphans = specs.filter(|(uid, _)| !is_known(uid));
    orphans
        .map(|(uid, path)| {
            Finding::warning(
                "spec-without-claim",
                path,
                format!("it is of claim {uid}, of which {file} knows nothing"),
                "nothing, if the kubelet plugin of this node runs: it asks the API server, and removes the file unless a pod uses the claim; else start it, or without a driver remove the file",
            )
        })
        .collect()
}

/// kubelet unprepares only claims that it knows.
fn unknown_to_kubelet(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    let Some(kubelet) = facts.kubelet_state() else {
        return vec![];
    };
    let file = facts.root.checkpoint();
    let unknown = prepared(records).filter(|uid| !kubelet.claims.contains_key(*uid));
    unknown
        .map(|uid| {
            Finding::warning(
                "claim-unknown-to-kubelet",
                format!("claim {uid}"),
                format!("{file} has it as prepared, kubelet has not: kubelet will not have it unprepared"),
                "nothing, if its ResourceClaim is gone: the plugin frees it within minutes; else delete its pods",
            )
        })
        .collect()
}
