//! Whether kubelet's root is the one that was looked into: without it there
//! are no records, which is not the same as no claims.

use std::io;
use std::path::Path;

use dra_checkpoint::CHECKPOINT_FILE;

use super::{Known, Node};
use crate::files::HostFiles;
use crate::finding::Finding;
use crate::invocation::Invocation;
use crate::kubelet_state::KUBELET_STATE_FILE;
use crate::options::DEFAULT_KUBELET_ROOT;
use compute_domain_api::names::DRIVER_NAME;

/// Of kubelets: the default, which k3s and RKE2 keep, that of `MicroK8s`, that
/// of k0s.
const KNOWN: [&str; 3] = [
    DEFAULT_KUBELET_ROOT,
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/var/lib/k0s/kubelet",
];

/// Where the plugin keeps its records, below kubelet's root.
pub(super) fn plugin_dir(root: &str) -> String {
    format!("{root}/plugins/{DRIVER_NAME}")
}

/// Of specs whose records are not where they should be. That kubelet has claims
/// shows that its root is the right one; they are compared with the rest.
pub(super) fn check(
    files: &HostFiles,
    node: &Node,
    root: &str,
    invocation: &Invocation,
) -> Option<Finding> {
    // What was set aside is why there is none.
    let path = node.specs.paths.values().next().filter(|_| !node.lost)?;
    let mut kubelet = node.kubelet.yes().into_iter();
    if kubelet.any(|state| !state.claims.is_empty()) {
        return None;
    }
    let seen = match node.specs.paths.len() {
        1 => format!("{path} is of a claim"),
        n => format!("{path} and {} more specs are of claims", n - 1),
    };
    let plugin = plugin_dir(root);
    if is_absent(files, &plugin) {
        return Some(of_plugin(files, root, &plugin, &seen, invocation));
    }
    let file = format!("{plugin}/{CHECKPOINT_FILE}");
    matches!(node.checkpoint, Known::Absent).then(|| {
        Finding::warning(
            "checkpoint-absent",
            file,
            format!("it does not exist, and {seen}: nothing says which claims live"),
            "start the kubelet plugin on this node: it puts its records and the specs in line",
        )
    })
}

fn of_plugin(
    files: &HostFiles,
    root: &str,
    plugin: &str,
    seen: &str,
    invocation: &Invocation,
) -> Finding {
    let what = format!("there is no such directory, and {seen}: nothing says which claims live");
    let (evidence, fix) = match elsewhere(files, root) {
        Some(root) => (
            format!("{what}; there is {}", known(files, root)),
            invocation.doctor(Path::new(root)),
        ),
        None => (
            what,
            "name kubelet's root (its --root-dir) with --kubelet-root; if it is this one, start \
             the kubelet plugin on this node"
                .to_owned(),
        ),
    };
    Finding::warning("plugin-directory-absent", plugin, evidence, fix)
}

/// For a host of whose claims nothing is seen.
pub(super) fn absent(files: &HostFiles, root: &str) -> String {
    match elsewhere(files, root) {
        Some(other) => format!("no kubelet in {root}; there is {other} (--kubelet-root)"),
        None => format!("no kubelet in {root}"),
    }
}

/// Another root: one where the plugin was, else one that is there if the one
/// that was given shows no kubelet.
fn elsewhere(files: &HostFiles, root: &str) -> Option<&'static str> {
    let others = || KNOWN.into_iter().filter(|other| *other != root);
    let has_plugin = |other: &&str| files.exists(&plugin_dir(other));
    let has_kubelet = files.exists(&format!("{root}/{KUBELET_STATE_FILE}"));
    let with_plugin = others().find(has_plugin);
    with_plugin.or_else(|| others().find(|other| !has_kubelet && files.exists(other)))
}

fn known(files: &HostFiles, root: &str) -> String {
    let plugin = plugin_dir(root);
    if files.exists(&plugin) {
        plugin
    } else {
        root.to_owned()
    }
}

/// As far as it is known: what may not be looked at is not absent.
fn is_absent(files: &HostFiles, path: &str) -> bool {
    let found = files.behind(path).metadata();
    found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
