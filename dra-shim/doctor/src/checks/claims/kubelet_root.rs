//! Specs of claims without the plugin's records: kubelet may have another root
//! directory.

use std::path::Path;

use crate::facts::claims::ClaimFacts;
use crate::facts::claims::checkpoint_file::CheckpointFile;
use crate::facts::claims::kubelet_root::{KubeletRootFacts, Presence};
use crate::finding::Finding;
use crate::invocation::Invocation;

/// That kubelet has claims shows that its root is the right one; they are
/// compared with the rest.
pub(super) fn check(facts: &ClaimFacts, invocation: &Invocation) -> Option<Finding> {
    let path = facts.specs.paths.values().next()?;
    // The checkpoint that was set aside is why there is none.
    if !facts.set_aside.is_empty() {
        return None;
    }
    let kubelet = facts.kubelet_state();
    if kubelet.is_some_and(|state| !state.claims.is_empty()) {
        return None;
    }
    let seen = match facts.specs.paths.len() {
        1 => format!("{path} is of a claim"),
        n => format!("{path} and {} more specs are of claims", n - 1),
    };
    if facts.root.plugin == Presence::Absent {
        return Some(plugin_dir_absent(&facts.root, &seen, invocation));
    }
    (facts.checkpoint == CheckpointFile::Absent).then(|| {
        Finding::warning(
            "checkpoint-absent",
            facts.root.checkpoint(),
            format!("it does not exist, and {seen}: it is unknown which claims live"),
            "start the kubelet plugin on this node: it puts its records and the specs in line",
        )
    })
}

/// Where another root directory is found, the fix is this examination with it.
fn plugin_dir_absent(root: &KubeletRootFacts, seen: &str, invocation: &Invocation) -> Finding {
    let evidence =
        format!("there is no such directory, and {seen}: it is unknown which claims live");
    let (evidence, fix) = match &root.other {
        Some(other) => (
            format!("{evidence}; there is {}", other.evidence),
            invocation.doctor(Path::new(&other.path)),
        ),
        None => (
            evidence,
            "name kubelet's root (its --root-dir) with --kubelet-root; if it is this one, start \
             the kubelet plugin on this node"
                .to_owned(),
        ),
    };
    Finding::warning("plugin-directory-absent", root.plugin_dir(), evidence, fix)
}

/// The summary of a host of whose claims nothing is seen.
pub(super) fn no_kubelet(root: &KubeletRootFacts) -> String {
    let path = &root.path;
    match &root.other {
        Some(other) => format!(
            "no kubelet in {path}; there is {} (--kubelet-root)",
            other.path
        ),
        None => format!("no kubelet in {path}"),
    }
}
