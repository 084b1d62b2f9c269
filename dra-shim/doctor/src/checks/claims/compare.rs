//! What the checkpoint, the CDI directories and kubelet's state say of the same
//! claims.

use std::collections::BTreeMap;

use super::{Known, Node};
use crate::checkpoint::checkpoint_records;
use crate::finding::Finding;
use crate::invocation::Invocation;
use crate::kubelet_state::KubeletState;

impl Node {
    pub(super) fn findings(&self, file: &str, invocation: &Invocation) -> Vec<Finding> {
        let mut findings = Vec::new();
        let decoded = match &self.checkpoint {
            Known::Yes(decoded) => decoded,
            Known::Absent => return self.unknown_to_plugin(&BTreeMap::new(), file),
            Known::Unread => return findings,
        };
        let records: BTreeMap<&str, bool> = checkpoint_records(decoded)
            .into_iter()
            .map(|(uid, record)| (uid, record.is_completed()))
            .collect();
        findings.extend(self.without_spec(&records, file));
        // What a damaged file lost is not known, so that nothing is an orphan.
        if decoded.is_err() {
            return findings;
        }
        findings.extend(self.unknown_to_plugin(&records, file));
        findings.extend(self.orphans(&records, file, invocation));
        findings.extend(self.unknown_to_kubelet(&records, file));
        findings
    }

    /// None, where a spec that was not seen may be.
    fn without_spec(&self, records: &BTreeMap<&str, bool>, file: &str) -> Vec<Finding> {
        if !self.specs.all_seen {
            return vec![];
        }
        let prepared = records.iter().filter(|(_, completed)| **completed);
        let without = prepared.filter(|(uid, _)| !self.specs.paths.contains_key(**uid));
        without
            .map(|(uid, _)| {
                Finding::error(
                    "claim-without-spec",
                    format!("claim {uid}"),
                    format!("{file} has it as prepared, and no CDI directory has its spec: its pods' containers cannot be created"),
                    "restart the kubelet plugin of this node: it writes the spec again",
                )
            })
            .collect()
    }

    /// None, where the plugin is to make up for what was lost: pods that are
    /// deleted for that would be deleted for nothing.
    fn unknown_to_plugin(&self, records: &BTreeMap<&str, bool>, file: &str) -> Vec<Finding> {
        if self.lost {
            return vec![];
        }
        let has_not = match &self.checkpoint {
            Known::Absent => format!("there is no {file}"),
            Known::Yes(_) | Known::Unread => format!("{file} has not"),
        };
        let kubelets = self.kubelet.yes();
        let kubelets = kubelets.into_iter().flat_map(|state| &state.claims);
        let lost = kubelets
            .filter(|(uid, claim)| claim.prepared && records.get(uid.as_str()) != Some(&true));
        lost.map(|(uid, claim)| {
            Finding::error(
                "claim-unknown-to-plugin",
                format!("claim {uid} ({})", claim.name),
                format!("kubelet has it as prepared, {has_not}"),
                "delete the pods that use it, so that it is prepared anew; was the plugin's directory removed?",
            )
        })
        .collect()
    }

    fn orphans(
        &self,
        records: &BTreeMap<&str, bool>,
        file: &str,
        invocation: &Invocation,
    ) -> Vec<Finding> {
        // What was lost, or what kubelet has, may be anything.
        if self.lost || matches!(self.kubelet, Known::Unread) {
            return vec![];
        }
        let orphans = self.specs.paths.iter();
        // What kubelet has is in use, whoever lost the record.
        let is_known = |uid: &str| {
            let has = |state: &KubeletState| state.claims.contains_key(uid);
            records.contains_key(uid) || self.kubelet.yes().is_some_and(has)
        };
        let orphans = orphans.filter(|(uid, _)| !is_known(uid));
        orphans
            .map(|(uid, path)| {
                Finding::warning(
                    "spec-without-claim",
                    path.clone(),
                    format!("it is of claim {uid}, of which {file} knows nothing"),
                    invocation.gc(),
                )
            })
            .collect()
    }

    fn unknown_to_kubelet(&self, records: &BTreeMap<&str, bool>, file: &str) -> Vec<Finding> {
        let Some(kubelet) = self.kubelet.yes() else {
            return vec![];
        };
        let prepared = records.iter().filter(|(_, completed)| **completed);
        let forgotten = prepared.filter(|(uid, _)| !kubelet.claims.contains_key(**uid));
        forgotten
            .map(|(uid, _)| {
                Finding::warning(
                    "claim-unknown-to-kubelet",
                    format!("claim {uid}"),
                    format!("{file} has it as prepared, kubelet has not: kubelet will not have it unprepared"),
                    "nothing, if its ResourceClaim is gone: the plugin frees it within minutes; else delete its pods",
                )
            })
            .collect()
    }
}
