//! The node's prepared claims: checkpoint, CDI specs and kubelet's state.

mod compare;
mod root;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use compute_domain_node::error_chain;
use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint};
use imex_cdi::{DirState, Registry};

use crate::area::AreaReport;
use crate::checkpoint::{DecodedCheckpoint, checkpoint_records, is_unsettled};
use crate::claim_specs::claim_specs_in;
use crate::files::HostFiles;
use crate::finding::Finding;
use crate::invocation::Invocation;
use crate::kubelet_state::{KUBELET_STATE_FILE, KubeletState, KubeletStateError};
use crate::refusal::refusal_hint;
use compute_domain_api::names::DRIVER_NAME;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the three say, for the checks between them.
struct Node {
    checkpoint: Known<DecodedCheckpoint>,
    /// Whether one was set aside, whose claims may be missing.
    lost: bool,
    specs: Specs,
    kubelet: Known<KubeletState>,
}

/// What a file says.
enum Known<T> {
    Yes(T),
    /// There is no such file.
    Absent,
    /// It may say anything.
    Unread,
}

/// Claims with a spec.
struct Specs {
    /// The spec of each claim.
    paths: BTreeMap<String, String>,
    /// Whether all directories were looked into, so that there are no others.
    all_seen: bool,
}

/// The checks, and a line for each claim, for a bundle.
pub(super) fn check(
    files: &HostFiles,
    registry: &Registry,
    root: &str,
    invocation: &Invocation,
) -> (AreaReport, String) {
    let plugin = root::plugin_dir(root);
    let file = format!("{plugin}/{CHECKPOINT_FILE}");
    let mut findings = Vec::new();
    let checkpoint = read_checkpoint(files, &file, &mut findings);
    findings.extend(of_registration(files, root, &plugin));
    let aside = set_aside(files, &plugin);
    let lost = !aside.is_empty();
    findings.extend(aside);
    if let Known::Yes(decoded) = &checkpoint {
        findings.extend(of_boot(files, &file, decoded));
    }
    let node = Node {
        checkpoint,
        lost,
        specs: Specs::of(files, registry),
        kubelet: read_kubelet(
            files,
            &format!("{root}/{KUBELET_STATE_FILE}"),
            &mut findings,
        ),
    };
    findings.extend(node.findings(&file, invocation));
    findings.extend(root::check(files, &node, root, invocation));
    if findings.is_empty() && !files.exists(root) {
        let skipped = AreaReport::skipped(root::absent(files, root));
        return (skipped, node.table());
    }
    (AreaReport::new(node.summary(), findings), node.table())
}

fn read_checkpoint(
    files: &HostFiles,
    file: &str,
    findings: &mut Vec<Finding>,
) -> Known<DecodedCheckpoint> {
    read(files, file, "checkpoint-unreadable", findings).and_then(|bytes| {
        let decoded = Checkpoint::decode(&bytes);
        if let Err(damaged) = &decoded {
            findings.push(Finding::error(
                "checkpoint-damaged",
                file,
                damaged.reason.to_string(),
                damaged.hint(),
            ));
        }
        Known::Yes(decoded)
    })
}

fn read_kubelet(files: &HostFiles, file: &str, findings: &mut Vec<Finding>) -> Known<KubeletState> {
    read(files, file, "kubelet-state-unreadable", findings).and_then(|bytes| {
        match KubeletState::decode(&bytes) {
            Ok(state) => Known::Yes(state),
            Err(error) => {
                findings.push(unsound(file, &error));
                Known::Unread
            }
        }
    })
}

/// A file's bytes; that it cannot be read is the finding `unreadable`.
fn read(
    files: &HostFiles,
    file: &str,
    unreadable: &'static str,
    findings: &mut Vec<Finding>,
) -> Known<Vec<u8>> {
    match files.bytes(file) {
        Ok(Some(bytes)) => Known::Yes(bytes),
        Ok(None) => Known::Absent,
        Err(error) => {
            let (evidence, fix) = (error.to_string(), refusal_hint(&error));
            findings.push(Finding::warning(unreadable, file, evidence, fix));
            Known::Unread
        }
    }
}

fn unsound(file: &str, error: &KubeletStateError) -> Finding {
    if error.is_damage() {
        return Finding::error(
            "kubelet-state-damaged",
            file,
            error_chain(error),
            "kubelet does not start with it: drain the node, remove the file, start kubelet",
        )
        .quoting();
    }
    Finding::warning(
        "kubelet-state-unknown",
        file,
        format!("{}: it may be that of another version", error_chain(error)),
        "leave it: claims are not compared with it; kubelet 1.34 and newer are known",
    )
    .quoting()
}

/// A plugin that has been here has a registration socket while it runs.
fn of_registration(files: &HostFiles, root: &str, plugin: &str) -> Option<Finding> {
    let registry = format!("{root}/plugins_registry");
    let is_ours = |name: &String| name.contains(DRIVER_NAME);
    if !files.can_list(&registry) {
        return None;
    }
    let running = files.names(&registry).iter().any(is_ours);
    (files.exists(plugin) && !running).then(|| {
        Finding::error(
            "plugin-not-registered",
            registry,
            format!("no socket of {DRIVER_NAME} is in it: kubelet cannot reach the plugin"),
            "kubectl get pods -A -o wide | grep compute-domain: see why the plugin does not run on this node",
        )
    })
}

fn set_aside(files: &HostFiles, plugin: &str) -> Vec<Finding> {
    let names = files.names(plugin).into_iter();
    let aside = names.filter(|name| is_unsettled(name));
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

fn of_boot(files: &HostFiles, file: &str, decoded: &DecodedCheckpoint) -> Option<Finding> {
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

// === impl Known ===

impl<T> Known<T> {
    fn yes(&self) -> Option<&T> {
        match self {
            Self::Yes(known) => Some(known),
            Self::Absent | Self::Unread => None,
        }
    }

    fn and_then<U>(self, of: impl FnOnce(T) -> Known<U>) -> Known<U> {
        match self {
            Self::Yes(known) => of(known),
            Self::Absent => Known::Absent,
            Self::Unread => Known::Unread,
        }
    }
}

// === impl Specs ===

impl Specs {
    fn of(files: &HostFiles, registry: &Registry) -> Self {
        let mut specs = Self {
            paths: BTreeMap::new(),
            all_seen: true,
        };
        for dir in registry.dirs() {
            let found = match dir.state {
                DirState::Skipped(_) => None,
                DirState::Listed | DirState::Absent => claim_specs_in(&dir.path).ok(),
            };
            specs.all_seen &= found.is_some();
            let found = found.into_iter().flatten();
            specs
                .paths
                .extend(found.map(|spec| (spec.uid.to_string(), files.host_name(&spec.path))));
        }
        specs
    }
}

// === impl Node ===

impl Node {
    fn summary(&self) -> String {
        let count = |number: Option<usize>| match number {
            Some(number) => number.to_string(),
            None => "-".to_owned(),
        };
        let records = self.checkpoint.yes();
        let records = records.map(|decoded| checkpoint_records(decoded).len());
        let kubelets = self.kubelet.yes().map(|state| state.claims.len());
        let more = if self.specs.all_seen { "" } else { " or more" };
        format!(
            "{} in the checkpoint, {}{more} with a spec, {} known to kubelet",
            count(records),
            self.specs.paths.len(),
            count(kubelets)
        )
    }

    /// A line for each claim: names and states, nothing of its parameters.
    fn table(&self) -> String {
        let records = self
            .checkpoint
            .yes()
            .map(checkpoint_records)
            .unwrap_or_default();
        let mut lines: BTreeMap<&str, [&str; 3]> = BTreeMap::new();
        for (uid, record) in &records {
            lines.entry(uid).or_insert(["-"; 3])[0] = record.state.name();
        }
        for uid in self.specs.paths.keys() {
            lines.entry(uid).or_insert(["-"; 3])[1] = "spec";
        }
        for (uid, claim) in self.kubelet.yes().iter().flat_map(|state| &state.claims) {
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
