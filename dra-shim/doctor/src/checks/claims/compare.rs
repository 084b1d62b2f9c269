//! Compares the claims in the checkpoint, in the CDI directories and in kubelet's state.

use std::collections::BTreeMap;

use dra_checkpoint::State;

use crate::facts::claims::ClaimFacts;
use crate::facts::claims::checkpoint_file::{CheckpointFile, RecordFacts};
use crate::facts::claims::journals::GpuChange;
use crate::finding::Finding;
use crate::kubelet_state::KubeletState;

type Records = BTreeMap<String, RecordFacts>;

/// Compares only places that are known: a file that could not be read, or was lost, may have
/// had the claim.
pub(super) fn check(facts: &ClaimFacts) -> Vec<Finding> {
    let checkpoint = match &facts.checkpoint {
        CheckpointFile::Read(checkpoint) => checkpoint,
        CheckpointFile::Absent => return unknown_to_plugin(facts, &Records::new()),
        CheckpointFile::Unreadable(_) => return vec![],
    };
    let records = &checkpoint.records;
    let mut findings = without_spec(facts, records);
    // A damaged file may have lost any record, so no spec counts as an orphan.
    if checkpoint.damage.is_some() {
        return findings;
    }
    findings.extend(unknown_to_plugin(facts, records));
    // It is known which claims were lost, and which claims kubelet has.
    if facts.set_aside.is_empty() && !facts.kubelet.is_unusable() {
        findings.extend(orphans(facts, records));
        findings.extend(left_changes(facts, records));
    }
    findings.extend(unknown_to_kubelet(facts, records));
    findings
}

/// The claims that are prepared according to the checkpoint.
fn prepared(records: &Records) -> impl Iterator<Item = &String> {
    let records = records.iter();
    records.filter_map(|(uid, record)| record.is_completed.then_some(uid))
}

/// Empty if there may be specs that were not seen.
fn without_spec(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    if facts.specs.is_incomplete {
        return vec![];
    }
    let file = facts.root.checkpoint();
    let without = prepared(records).filter(|uid| !facts.specs.paths.contains_key(*uid));
    without
        .map(|uid| {
            Finding::error(
                "claim-without-spec",
                format!("claim {uid}"),
                format!("according to {file}, this claim is prepared, but no CDI directory has its spec: containers of its pods cannot be created"),
                "none needed if the kubelet plugin on this node is running: the plugin writes missing specs again within seconds. Otherwise start the plugin; if the spec stays missing, the plugin's log has the reason",
            )
        })
        .collect()
}

/// Empty while the plugin has to recover lost records: there is no need to delete pods for
/// these.
fn unknown_to_plugin(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    if !facts.set_aside.is_empty() {
        return vec![];
    }
    let file = facts.root.checkpoint();
    let reason = match &facts.checkpoint {
        CheckpointFile::Absent => format!("{file} does not exist"),
        CheckpointFile::Read(_) | CheckpointFile::Unreadable(_) => {
            format!("{file} does not record it as prepared")
        }
    };
    let is_recorded = |uid: &String| records.get(uid).is_some_and(|it| it.is_completed);
    let claims = facts.kubelet_state().into_iter();
    let claims = claims.flat_map(|state| &state.claims);
    let lost = claims.filter(|(uid, claim)| claim.prepared && !is_recorded(uid));
    lost.map(|(uid, claim)| {
        let fix = if facts.specs.paths.contains_key(uid) {
            "if the kubelet plugin on this node is not running, start it: the plugin restores the claim's missing record once the API server has confirmed the claim"
        } else {
            "delete the pods that use this claim, so that the claim is prepared again for new pods: its record and its CDI spec are missing (was the plugin's directory removed?)"
        };
        Finding::error(
            "claim-unknown-to-plugin",
            format!("claim {uid} ({})", claim.name),
            format!("according to kubelet, this claim is prepared, but {reason}"),
            fix,
        )
    })
    .collect()
}

/// A claim in kubelet's state is in use, even without a record.
fn is_kubelets(facts: &ClaimFacts, uid: &str) -> bool {
    let has = |state: &KubeletState| state.claims.contains_key(uid);
    facts.kubelet_state().is_some_and(has)
}

// req: DOCTOR-8
fn orphans(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    let file = facts.root.checkpoint();
    let is_known = |uid: &String| records.contains_key(uid) || is_kubelets(facts, uid);
    let specs = facts.specs.paths.iter();
    let orphans = specs.filter(|(uid, _)| !is_known(uid));
    orphans
        .map(|(uid, path)| {
            Finding::warning(
                "spec-without-claim",
                path,
                format!("this spec belongs to claim {uid}, which has no record in {file}"),
                "none needed if the kubelet plugin on this node is running: the plugin queries the API server and removes the file unless a pod uses the claim. Otherwise start the plugin; if the driver was uninstalled, remove the file",
            )
        })
        .collect()
}

/// A reboot undoes what was changed.
// req: DOCTOR-18
fn left_changes(facts: &ClaimFacts, records: &Records) -> Vec<Finding> {
    let file = facts.root.checkpoint();
    let aborted = State::<()>::Aborted { at: None }.name();
    let has_record = |uid: &String| records.get(uid).is_some_and(|it| it.state != aborted);
    let is_of_this_boot = |change: &GpuChange| {
        let boot = facts.boot_id.as_ref();
        boot.is_none_or(|boot| change.boot_id == *boot)
    };
    let changes = facts.gpu_changes.iter();
    let left = changes.filter(|(uid, change)| {
        let may_be_changed = change.as_ref().ok().is_none_or(is_of_this_boot);
        may_be_changed && !has_record(uid) && !is_kubelets(facts, uid)
    });
    left.map(|(uid, change)| {
        let finding = |evidence: String| {
            Finding::warning(
                "gpu-change-left",
                facts.root.journal(uid),
                evidence,
                "none needed if the kubelet plugin on this node is running: the plugin retries, and the node's event GPUNotRestored has the reason. Otherwise start the plugin; if the driver was uninstalled, run nvidia-smi compute-policy -i UUID --set-timeslice 0 for each GPU with such a time slice, and remove the file",
            )
        };
        match change {
            Ok(change) => finding(format!(
                "claim {uid} ({}) has no record in {file}, but the time slice that it has set is not undone on {}",
                change.name,
                change.gpus.join(", ")
            )),
            Err(reason) => finding(format!(
                "claim {uid} has no record in {file}, and its journal cannot be used: {reason}"
            ))
            .quoting(),
        }
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
                format!("according to {file}, this claim is prepared, but kubelet does not know the claim and will not unprepare it"),
                "none needed if the ResourceClaim was deleted: the plugin then frees its devices within minutes; otherwise delete the pods that use the claim",
            )
        })
        .collect()
}
