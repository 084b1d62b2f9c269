//! The node's prepared claims: checkpoint, CDI specs and kubelet's state.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use compute_domain_node::with_sources;
use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint};
use imex_cdi::Registry;

use super::files::Files;
use super::finding::{Checked, Finding};
use crate::claims::{self, DRIVER, Decoded, KUBELET_STATE, KubeletState, KubeletStateError};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the three say, for the checks between them.
struct Node<'a> {
    checkpoint: Option<&'a Decoded>,
    /// Claims with a spec, and the spec.
    specs: BTreeMap<String, String>,
    kubelet: Option<KubeletState>,
}

/// The checks, and a line for each claim, for a bundle.
pub(super) fn check(files: &Files, registry: &Registry, kubelet_root: &Path) -> (Checked, String) {
    let root = kubelet_root.to_string_lossy();
    let plugin = format!("{root}/plugins/{DRIVER}");
    if !files.exists(&root) {
        let checked = Checked::skipped(format!("no kubelet in {root}"));
        return (checked, String::new());
    }
    let mut findings = Vec::new();
    let file = format!("{plugin}/{CHECKPOINT_FILE}");
    let decoded = read_checkpoint(files, &file, &mut findings);
    findings.extend(of_registration(files, &root, &plugin));
    findings.extend(set_aside(files, &plugin));
    if let Some(decoded) = &decoded {
        findings.extend(of_boot(files, &file, decoded));
    }
    let node = Node {
        checkpoint: decoded.as_ref(),
        specs: specs(files, registry),
        kubelet: read_kubelet(files, &format!("{root}/{KUBELET_STATE}"), &mut findings),
    };
    findings.extend(node.findings(&file));
    (Checked::new(node.summary(), findings), node.table())
}

fn read_checkpoint(files: &Files, file: &str, findings: &mut Vec<Finding>) -> Option<Decoded> {
    let bytes = match files.bytes(file) {
        Ok(bytes) => bytes?,
        Err(error) => {
            findings.push(Finding::warning(
                "checkpoint-unreadable",
                file,
                error.to_string(),
                "run this as root: the plugin's files are root's",
            ));
            return None;
        }
    };
    let decoded = Checkpoint::decode(&bytes);
    if let Err(damaged) = &decoded {
        findings.push(Finding::error(
            "checkpoint-damaged",
            file,
            damaged.reason.to_string(),
            damaged.hint(),
        ));
    }
    Some(decoded)
}

fn read_kubelet(files: &Files, file: &str, findings: &mut Vec<Finding>) -> Option<KubeletState> {
    let bytes = match files.bytes(file) {
        Ok(bytes) => bytes?,
        Err(error) => {
            findings.push(Finding::warning(
                "kubelet-state-unreadable",
                file,
                error.to_string(),
                "run this as root: kubelet's files are root's",
            ));
            return None;
        }
    };
    let state = claims::decode_kubelet(&bytes);
    state
        .map_err(|error| findings.push(unsound(file, &error)))
        .ok()
}

fn unsound(file: &str, error: &KubeletStateError) -> Finding {
    if error.is_damage() {
        return Finding::error(
            "kubelet-state-damaged",
            file,
            with_sources(error),
            "kubelet does not start with it: drain the node, remove the file, start kubelet",
        )
        .quoting();
    }
    Finding::warning(
        "kubelet-state-unknown",
        file,
        format!("{}: it may be that of another version", with_sources(error)),
        "leave it: claims are not compared with it; kubelet 1.34 and newer are known",
    )
    .quoting()
}

/// A plugin that has been here has a registration socket while it runs.
fn of_registration(files: &Files, root: &str, plugin: &str) -> Option<Finding> {
    let registry = format!("{root}/plugins_registry");
    let is_ours = |name: &String| name.contains(DRIVER);
    if !files.may_list(&registry) {
        return None;
    }
    let running = files.names(&registry).iter().any(is_ours);
    (files.exists(plugin) && !running).then(|| {
        Finding::error(
            "plugin-not-registered",
            registry,
            format!("no socket of {DRIVER} is in it: kubelet cannot reach the plugin"),
            "kubectl get pods -A -o wide | grep compute-domain: see why the plugin does not run on this node",
        )
    })
}

fn set_aside(files: &Files, plugin: &str) -> Vec<Finding> {
    let names = files.names(plugin).into_iter();
    let aside = names.filter(|name| claims::is_unsettled(name));
    aside
        .map(|name| {
            Finding::warning(
                "checkpoint-set-aside",
                format!("{plugin}/{name}"),
                "the plugin found it damaged and has not yet made up for what was lost",
                "keep it, and see in the plugin's log what it waits for (usually the API server)",
            )
        })
        .collect()
}

fn of_boot(files: &Files, file: &str, decoded: &Decoded) -> Option<Finding> {
    let recorded = decoded.as_ref().ok()?.boot_id()?;
    let current = files.text_if_any(BOOT_ID)?;
    (recorded != current.trim()).then(|| {
        Finding::warning(
            "checkpoint-of-earlier-boot",
            file,
            format!(
                "its boot is {recorded}, the host's is {}: no plugin has prepared anything since",
                current.trim()
            ),
            "start the kubelet plugin on this node: it prepares the claims again",
        )
    })
}

fn specs(files: &Files, registry: &Registry) -> BTreeMap<String, String> {
    let dirs = registry.dirs().iter();
    let found = dirs.filter_map(|dir| claims::of_dir(&dir.path).ok());
    found
        .flatten()
        .map(|spec| (spec.uid.to_string(), files.shown(&spec.path)))
        .collect()
}

// === impl Node ===

impl Node<'_> {
    fn findings(&self, file: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        let Some(decoded) = self.checkpoint else {
            findings.extend(self.unknown_to_plugin(&BTreeMap::new(), file));
            return findings;
        };
        let records: BTreeMap<&str, bool> = claims::records(decoded)
            .into_iter()
            .map(|(uid, record)| (uid, record.is_completed()))
            .collect();
        for (uid, _) in records.iter().filter(|(_, completed)| **completed) {
            if !self.specs.contains_key(*uid) {
                findings.push(Finding::error(
                    "claim-without-spec",
                    format!("claim {uid}"),
                    format!("{file} has it as prepared, and no CDI directory has its spec: its pods' containers cannot be created"),
                    "restart the kubelet plugin of this node: it writes the spec again",
                ));
            }
        }
        // What a damaged file lost is not known, so that nothing is an orphan.
        if decoded.is_err() {
            return findings;
        }
        findings.extend(self.unknown_to_plugin(&records, file));
        findings.extend(self.orphans(&records, file));
        findings.extend(self.unknown_to_kubelet(&records, file));
        findings
    }

    fn unknown_to_plugin(&self, records: &BTreeMap<&str, bool>, file: &str) -> Vec<Finding> {
        let kubelets = self.kubelet.iter().flat_map(|state| &state.claims);
        let lost = kubelets
            .filter(|(uid, claim)| claim.prepared && records.get(uid.as_str()) != Some(&true));
        lost.map(|(uid, claim)| {
            Finding::error(
                "claim-unknown-to-plugin",
                format!("claim {uid} ({})", claim.name),
                format!("kubelet has it as prepared, {file} has not"),
                "delete the pods that use it, so that it is prepared anew; was the plugin's directory removed?",
            )
        })
        .collect()
    }

    fn orphans(&self, records: &BTreeMap<&str, bool>, file: &str) -> Vec<Finding> {
        let orphans = self.specs.iter();
        // What kubelet has is in use, whoever lost the record.
        let is_known = |uid: &str| {
            let mut kubelets = self.kubelet.iter();
            records.contains_key(uid) || kubelets.any(|state| state.claims.contains_key(uid))
        };
        let orphans = orphans.filter(|(uid, _)| !is_known(uid));
        orphans
            .map(|(uid, path)| {
                Finding::warning(
                    "spec-without-claim",
                    path.clone(),
                    format!("it is of claim {uid}, of which {file} knows nothing"),
                    "cdi-gen gc --remove",
                )
            })
            .collect()
    }

    fn unknown_to_kubelet(&self, records: &BTreeMap<&str, bool>, file: &str) -> Vec<Finding> {
        let Some(kubelet) = &self.kubelet else {
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

    fn summary(&self) -> String {
        let count = |number: Option<usize>| match number {
            Some(number) => number.to_string(),
            None => "-".to_owned(),
        };
        let records = self
            .checkpoint
            .map(|decoded| claims::records(decoded).len());
        let kubelets = self.kubelet.as_ref().map(|state| state.claims.len());
        format!(
            "{} in the checkpoint, {} with a spec, {} known to kubelet",
            count(records),
            self.specs.len(),
            count(kubelets)
        )
    }

    /// A line for each claim: names and states, nothing of its parameters.
    fn table(&self) -> String {
        let records = self.checkpoint.map(claims::records).unwrap_or_default();
        let mut lines: BTreeMap<&str, [&str; 3]> = BTreeMap::new();
        for (uid, record) in &records {
            lines.entry(uid).or_insert(["-"; 3])[0] = record.state.name();
        }
        for uid in self.specs.keys() {
            lines.entry(uid).or_insert(["-"; 3])[1] = "spec";
        }
        for (uid, claim) in self.kubelet.iter().flat_map(|state| &state.claims) {
            let word = if claim.prepared { "prepared" } else { "asked" };
            lines.entry(uid).or_insert(["-"; 3])[2] = word;
        }
        let mut text = String::new();
        for (uid, [checkpoint, spec, kubelet]) in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{uid} checkpoint:{checkpoint} cdi:{spec} kubelet:{kubelet}"
            );
        }
        text
    }
}
