//! Where this program differs from NVIDIA's on purpose.
//!
//! For each difference there is an entry in `divergences.json` and a function here that turns NVIDIA's outcome into
//! the expected one. Any remaining difference is a bug.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Outcome;
use crate::cases::{Case, Image};
use crate::container::SONAME;
use crate::tree::Node;

const CACHE: &str = "/etc/ld.so.cache";
const OWN: &str = "/etc/ld.so.conf.d/00-nvcr-*.conf";

/// The differences, as the file lists them.
pub(crate) struct Table(Vec<Divergence>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Divergence {
    id: String,
    /// Why the program differs.
    reason: String,
    /// In how many cases it shows, at most.
    at_most: u64,
}

impl Table {
    pub(crate) fn read() -> Self {
        Self(serde_json::from_str(include_str!("divergences.json")).unwrap())
    }

    /// NVIDIA's outcome as it is wanted, and the differences that were in it.
    pub(crate) fn reconcile(
        &self,
        case: &Case,
        ours: &Outcome,
        mut theirs: Outcome,
    ) -> (Outcome, Vec<String>) {
        let mut ids = Vec::new();
        for Divergence { id, .. } in &self.0 {
            let before = theirs.clone();
            match id.as_str() {
                "no-etc" => create_etc(case, ours, &mut theirs),
                "no-trace-of-parameters" => remove_scratch(ours, &mut theirs),
                "musl" => list_for_musl(case, ours, &mut theirs),
                "relative-include" => see_relative_include(ours, &mut theirs),
                "folders-as-arguments" => reach_folders(case, ours, &mut theirs),
                other => panic!("divergences.json has {other:?}, which no function knows"),
            }
            if theirs != before {
                ids.push(id.clone());
            }
        }
        (theirs, ids)
    }

    /// Every listed difference was seen, and not more often than listed.
    pub(crate) fn check(&self, counts: &BTreeMap<String, u64>) {
        for Divergence {
            id,
            reason,
            at_most,
        } in &self.0
        {
            assert!(reason.len() > 40, "{id} needs a reason");
            let count = counts.get(id).copied().unwrap_or_default();
            assert!(
                count > 0,
                "{id} is listed and never seen: take it off the list"
            );
            assert!(
                count <= *at_most,
                "{id} is seen {count} times, listed are {at_most}"
            );
        }
    }
}

/// NVIDIA's hook does not create `/etc`.
fn create_etc(case: &Case, ours: &Outcome, theirs: &mut Outcome) {
    let error = theirs.error.as_deref().unwrap_or_default();
    if case.image == Image::Empty && error.contains("open /etc/ld.so.conf: no such file") {
        *theirs = ours.clone();
    }
}

/// NVIDIA's hook leaves a directory, a mount point, in the image.
fn remove_scratch(ours: &Outcome, theirs: &mut Outcome) {
    let nodes = &mut theirs.tree.0;
    nodes.retain(|path, _| !path.starts_with("/run/nvidia-ctk-hook"));
    if !ours.tree.0.contains_key("/run") {
        nodes.remove("/run");
    }
}

/// NVIDIA's hook knows musl by Alpine's release file, and its list has glibc's system folders.
fn list_for_musl(case: &Case, ours: &Outcome, theirs: &mut Outcome) {
    let path = format!("/etc/ld-musl-{}.path", std::env::consts::ARCH);
    let list = ours.tree.text(&path).unwrap_or_default();
    let mut wanted = vec!["/lib", "/usr/local/lib", "/usr/lib"];
    wanted.extend(&case.folders);
    let is_musl = matches!(case.image, Image::Alpine | Image::OtherMusl);
    if is_musl && wanted.iter().all(|it| list.lines().any(|line| line == *it)) {
        let node = ours.tree.0[&path].clone();
        theirs.tree.0.insert(path, node);
    }
}

/// NVIDIA's hook takes a relative pattern for one relative to the root, so it misses folders that the image has.
fn see_relative_include(ours: &Outcome, theirs: &mut Outcome) {
    let tree = &theirs.tree;
    let main = tree.text("/etc/ld.so.conf").unwrap_or_default();
    let Some(own) = tree
        .text(OWN)
        .filter(|_| main == "include ld.so.conf.d/*.conf\n")
    else {
        return;
    };
    let files = ["/etc/ld.so.conf.d/libc.conf", "/etc/ld.so.conf.d/000.conf"];
    let had = files
        .map(|path| tree.text(path).unwrap_or_default())
        .concat();
    let (known, new): (Vec<&str>, Vec<&str>) = own
        .lines()
        .partition(|folder| had.lines().any(|line| line == *folder));
    let text: String = new.iter().flat_map(|folder| [folder, "\n"]).collect();
    if known.is_empty() {
        return;
    }
    theirs.tree.0.remove(OWN);
    if !text.is_empty() {
        let bytes = text.into_bytes();
        let node = Node::File { mode: 0o644, bytes };
        theirs.tree.0.insert(OWN.to_owned(), node);
    }
    // The same libraries in another order.
    let sorted = |outcome: &Outcome| match outcome.tree.0.get(CACHE) {
        Some(Node::File { bytes, .. }) => {
            let mut bytes = bytes.clone();
            bytes.sort_unstable();
            bytes
        }
        _ => Vec::new(),
    };
    if sorted(ours) == sorted(theirs) {
        let cache = ours.tree.0[CACHE].clone();
        theirs.tree.0.insert(CACHE.to_owned(), cache);
    }
}

/// With NVIDIA's hook, folders of an image whose configuration does not include `ld.so.conf.d` are not in its cache,
/// and have no links by SONAME.
fn reach_folders(case: &Case, ours: &Outcome, theirs: &mut Outcome) {
    let main = ours.tree.0.get("/etc/ld.so.conf");
    let is_dangling = matches!(main, Some(Node::Link { target }) if target == "missing");
    let text = ours
        .tree
        .text("/etc/ld.so.conf")
        .or_else(|| ours.tree.text("/opt/conf/ld.so.conf"));
    let has_include = text.is_some_and(|text| text.contains("include"));
    let (Some(cache), None) = (ours.tree.0.get(CACHE), &theirs.error) else {
        return;
    };
    if has_include && !is_dangling {
        return;
    }
    theirs.tree.0.insert(CACHE.to_owned(), cache.clone());
    for folder in &case.folders {
        let link = format!("{}/{SONAME}", folder.replace("linked", "real"));
        if let Some(node) = ours.tree.0.get(&link) {
            theirs.tree.0.insert(link, node.clone());
        }
    }
}
