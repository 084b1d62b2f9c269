//! In which NVLink clique each node is, as its `ResourceSlice` says, and which label it should have for
//! it. The label lets the scheduler keep the pods of a job in one clique; a node plugin has no right to
//! write it.
//!
//! What is not known changes nothing. A slice that is gone, that has no device or whose device has no
//! clique says nothing of the clique: kubelet wipes slices when it starts, and the Go driver's have no
//! such attribute. Only a device with the taint of nodes without a clique says that there is none; then
//! the label goes, so that no pod of a clique is placed there.

mod slice;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::cliques::Clique;
use crate::listing::Listing;

pub(crate) use self::slice::ReportedClique;
pub use self::slice::{NodeSlice, is_without_clique};

/// After how long a label that somebody else owns is tried again: the owner may have been uninstalled.
const THEIRS_FOR: Duration = Duration::from_secs(60 * 60);

/// After how long a label whose write has failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// More cliques of nodes whose slices are gone are not remembered: as many nodes as start together.
const MOST_DEPARTED: usize = 20_000;

/// The nodes that have published a slice of the driver. A few hundred bytes each.
#[derive(Debug, Default)]
pub struct NodeCliques {
    nodes: HashMap<Box<str>, Node>,
    /// The cliques of nodes whose slice is gone, as while a kubelet or plugin starts.
    departed: HashMap<Box<str>, Clique>,
    /// How many nodes are in it: at least one.
    members: BTreeMap<Clique, usize>,
    /// The cliques that have got their first node or lost their last one.
    changed: BTreeSet<Clique>,
    /// The labels of nodes that no slice has told of yet; `None` once all slices were listed.
    listed_labels: Option<HashMap<Box<str>, Box<str>>>,
    /// Which nodes' labels may have to be written, and when.
    due: BTreeSet<(Instant, Box<str>)>,
    /// The nodes that the list which is going on has told of.
    listing: Listing,
}

#[derive(Debug)]
struct Node {
    uid: Box<str>,
    /// The name of the slice that spoke last.
    slice: Box<str>,
    reported: ReportedClique,
    label: Label,
}

/// What is known of the label of a node.
#[derive(Debug, PartialEq, Eq)]
enum Label {
    Unknown,
    /// It has this value, or does not exist.
    Is(Option<Box<str>>),
    /// Somebody else owns it, with another value.
    Theirs,
}

/// A label that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelWrite {
    /// The node's name.
    pub node: Box<str>,
    /// Its UID: another node may have its name by now.
    pub uid: Box<str>,
    /// The value; `None`: the label goes.
    pub clique: Option<Clique>,
}

/// A node has gone from one clique into another one, or into none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliqueChange {
    /// The clique that it was in.
    pub from: Clique,
    /// The one that it is in now.
    pub to: Option<Clique>,
}

// === impl NodeCliques ===

impl NodeCliques {
    /// No slice is known yet. Of all nodes, these have a label, with this value.
    pub fn new(labels: HashMap<Box<str>, Box<str>>) -> Self {
        Self {
            listed_labels: Some(labels),
            ..Self::default()
        }
    }

    /// The watch begins to list all slices.
    pub fn begin(&mut self) {
        self.listing.begin();
    }

    /// The watch has listed all slices.
    pub fn finish(&mut self) {
        self.listed_labels = None;
        for node in self.listing.finish(self.nodes.keys()) {
            self.forget(&node);
        }
    }

    /// The watch has this slice. Returns how the node's clique has changed, if both were known.
    pub fn apply(&mut self, slice: NodeSlice, now: Instant) -> Option<CliqueChange> {
        self.listing.add(&slice.node);
        let (node, to) = (slice.node.clone(), slice.reported.clone().into_clique());
        if !self.has_changed(&slice, now) {
            return None;
        }
        let from = if self.nodes.contains_key(&node) {
            self.went(slice)
        } else {
            self.came(slice)
        };
        if let Some(clique) = &to {
            self.enter(clique);
        }
        self.due.insert((now, node));
        let from = from.filter(|from| to.as_ref() != Some(from))?;
        Some(CliqueChange { from, to })
    }

    /// The watch does not have this slice any more.
    ///
    /// The node's label is not known from now on: the slice may be gone because the node is, and one of
    /// the same name has no label.
    pub fn remove(&mut self, slice: &NodeSlice) {
        let node = self.nodes.get(&slice.node);
        // A new slice may have been told of before.
        if node.is_some_and(|node| node.slice == slice.slice) {
            self.forget(&slice.node);
        }
    }

    /// The cliques that have got their first node or lost their last one since the last call, and whether
    /// they have one now.
    pub fn take_changed(&mut self) -> Vec<(Clique, bool)> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let with_state = |clique: Clique| {
            let has_nodes = self.members.contains_key(&clique);
            (clique, has_nodes)
        };
        changed.map(with_state).collect()
    }

    /// When [`next_label`](Self::next_label) may have something; `None`: not before a slice changes.
    pub fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next label to write. It counts as right from now on, unless
    /// [`owned_by_others`](Self::owned_by_others) or [`failed`](Self::failed) says otherwise.
    // req: CHANNEL-21
    pub fn next_label(&mut self, now: Instant) -> Option<LabelWrite> {
        while self.due()? <= now {
            let (_, name) = self.due.pop_first()?;
            let Some(node) = self.nodes.get_mut(&name) else {
                continue;
            };
            let wanted = match &node.reported {
                ReportedClique::Nothing => continue,
                ReportedClique::NoClique => None,
                ReportedClique::Clique(clique) => Some(clique.clone()),
            };
            let label = Label::Is(wanted.as_deref().map(Box::from));
            if node.label != label {
                node.label = label;
                return Some(LabelWrite {
                    node: name,
                    uid: node.uid.clone(),
                    clique: wanted,
                });
            }
        }
        None
    }

    /// The label was not written: somebody else owns it. It is left alone until he takes it away, the
    /// node's clique changes, or an hour has passed.
    pub fn owned_by_others(&mut self, write: LabelWrite, now: Instant) {
        self.again(write, Label::Theirs, now + THEIRS_FOR);
    }

    /// The label was not written. It is tried again.
    pub fn failed(&mut self, write: LabelWrite, now: Instant) {
        self.again(write, Label::Unknown, now + RETRY_AFTER);
    }

    fn again(&mut self, write: LabelWrite, label: Label, at: Instant) {
        if let Some(node) = self.nodes.get_mut(&write.node) {
            node.label = label;
            self.due.insert((at, write.node));
        }
    }

    /// Of all nodes, these have a label now, with this value. One that somebody has taken away or changed
    /// since it was written is written again.
    pub fn labels_are(&mut self, labels: &HashMap<Box<str>, Box<str>>, now: Instant) {
        for (name, node) in &mut self.nodes {
            let ReportedClique::Clique(clique) = &node.reported else {
                continue;
            };
            match (labels.get(name), &node.label) {
                (Some(label), _) if **label == **clique => {
                    node.label = Label::Is(Some(label.clone()));
                }
                (Some(_), Label::Theirs) | (_, Label::Unknown) => {}
                _ => {
                    node.label = Label::Unknown;
                    self.due.insert((now, name.clone()));
                }
            }
        }
    }

    /// A slice of a node that has one already. Returns whether it says something new of the clique.
    fn has_changed(&mut self, slice: &NodeSlice, now: Instant) -> bool {
        let Some(known) = self.nodes.get_mut(&slice.node) else {
            return true;
        };
        known.slice = slice.slice.clone();
        if known.uid != slice.uid {
            known.uid = slice.uid.clone();
            known.label = Label::Unknown;
            self.due.insert((now, slice.node.clone()));
        }
        slice.reported != ReportedClique::Nothing && slice.reported != known.reported
    }

    /// Returns the clique that the node has left.
    fn went(&mut self, slice: NodeSlice) -> Option<Clique> {
        let known = self.nodes.get_mut(&slice.node)?;
        let left = std::mem::replace(&mut known.reported, slice.reported).into_clique()?;
        self.leave(&left);
        Some(left)
    }

    /// A slice of a node that had none. Returns the clique in which it was when it had one.
    fn came(&mut self, slice: NodeSlice) -> Option<Clique> {
        let node = Node {
            uid: slice.uid,
            slice: slice.slice,
            reported: slice.reported,
            label: self.listed_label(&slice.node),
        };
        let was_in = self.departed.remove(&slice.node);
        self.nodes.insert(slice.node, node);
        was_in
    }

    fn listed_label(&mut self, node: &str) -> Label {
        match &mut self.listed_labels {
            Some(labels) => Label::Is(labels.remove(node)),
            None => Label::Unknown,
        }
    }

    fn forget(&mut self, name: &str) {
        let Some(node) = self.nodes.remove(name) else {
            return;
        };
        if let Some(clique) = node.reported.into_clique() {
            self.leave(&clique);
            // Nodes with new names come and go for as long as the process lives.
            if self.departed.len() > MOST_DEPARTED {
                self.departed.clear();
            }
            self.departed.insert(name.into(), clique);
        }
    }

    fn enter(&mut self, clique: &Clique) {
        let count = self.members.entry(clique.clone()).or_default();
        *count = count.saturating_add(1);
        if *count == 1 {
            self.changed.insert(clique.clone());
        }
    }

    fn leave(&mut self, clique: &Clique) {
        let count = self.members.get(clique).copied().unwrap_or_default();
        if count > 1 {
            self.members.insert(clique.clone(), count.saturating_sub(1));
        } else {
            self.members.remove(clique);
            self.changed.insert(clique.clone());
        }
    }
}

#[cfg(test)]
mod tests;
