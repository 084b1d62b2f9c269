//! The NVLink clique of each node, from its `ResourceSlice`, and the clique label that the node should have. With the
//! label, the scheduler can keep the pods of a job in one clique. A node plugin has no permission to write it.
//!
//! Missing information changes nothing. A deleted slice, a slice without device or a device without clique proves
//! nothing: kubelet deletes slices when it starts, and the Go driver's slices have no such attribute. Only a device
//! with the no-clique taint shows that its node has no clique. Then the label is removed, so that no pod of a clique is
//! scheduled there.

mod slice;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::cliques::Clique;
use crate::listing::Listing;

pub(crate) use self::slice::ReportedClique;
pub use self::slice::{NodeSlice, is_without_clique};

/// The delay before a label with another owner is retried: the owner may be uninstalled by then.
const FOREIGN_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// The delay before a failed write of a label is retried.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The most remembered cliques of nodes without a slice: more nodes do not start together.
const MOST_DEPARTED: usize = 20_000;

/// The nodes that have published a slice of the driver, a few hundred bytes each.
#[derive(Debug, Default)]
pub struct NodeCliques {
    nodes: HashMap<Box<str>, Node>,
    /// The cliques of nodes whose slice is deleted, for instance while kubelet or the plugin starts.
    departed: HashMap<Box<str>, Clique>,
    /// The number of nodes in each clique, at least one.
    members: BTreeMap<Clique, usize>,
    /// The cliques that have got their first node or lost their last one.
    changed: BTreeSet<Clique>,
    /// The labels of nodes without a known slice; `None` once all slices are listed.
    listed_labels: Option<HashMap<Box<str>, Box<str>>>,
    /// The nodes whose labels are due for a check, by time.
    due: BTreeSet<(Instant, Box<str>)>,
    /// The nodes in the current list.
    listing: Listing,
}

#[derive(Debug)]
struct Node {
    uid: Box<str>,
    /// The name of its newest slice.
    slice: Box<str>,
    reported: ReportedClique,
    label: Label,
}

/// The known state of a node's label.
#[derive(Debug, PartialEq, Eq)]
enum Label {
    Unknown,
    /// It has this value, or is absent.
    Is(Option<Box<str>>),
    /// It has another value and another owner.
    Foreign,
}

/// A label to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelWrite {
    /// The node's name.
    pub node: Box<str>,
    /// Its UID: another node may have its name by now.
    pub uid: Box<str>,
    /// The value; `None`: remove the label.
    pub clique: Option<Clique>,
}

/// A node's move from one clique into another, or into none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliqueChange {
    /// The former clique.
    pub from: Clique,
    /// The current clique, if any.
    pub to: Option<Clique>,
}

// === impl NodeCliques ===

impl NodeCliques {
    /// An instance without slices. `labels` are the existing labels of all nodes.
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

    /// The watch has delivered this slice. Returns the change of the node's clique, if its former one is known.
    pub fn apply(&mut self, slice: NodeSlice, now: Instant) -> Option<CliqueChange> {
        self.listing.add(&slice.node);
        let (node, to) = (slice.node.clone(), slice.reported.clone().into_clique());
        if !self.has_changed(&slice, now) {
            return None;
        }
        let from = if self.nodes.contains_key(&node) {
            self.clique_changed(slice)
        } else {
            self.node_appeared(slice)
        };
        if let Some(clique) = &to {
            self.enter(clique);
        }
        self.due.insert((now, node));
        let from = from.filter(|from| to.as_ref() != Some(from))?;
        Some(CliqueChange { from, to })
    }

    /// The watch has delivered that this slice is deleted.
    ///
    /// The node's label counts as unknown from now on. The node may be deleted, too, and a new one of the same name
    /// has no label.
    pub fn remove(&mut self, slice: &NodeSlice) {
        let node = self.nodes.get(&slice.node);
        // The watch may have delivered a new slice before.
        if node.is_some_and(|node| node.slice == slice.slice) {
            self.forget(&slice.node);
        }
    }

    /// The cliques that have got their first node or lost their last one since the last call, and whether they have
    /// nodes now.
    pub fn take_changed(&mut self) -> Vec<(Clique, bool)> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let with_state = |clique: Clique| {
            let has_nodes = self.members.contains_key(&clique);
            (clique, has_nodes)
        };
        changed.map(with_state).collect()
    }

    /// The time of the next [`next_label`](Self::next_label); `None` until a slice changes.
    pub fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next label to write. It counts as written, unless [`owned_by_others`](Self::owned_by_others) or
    /// [`failed`](Self::failed) is called.
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

    /// The label was not written: it has another owner. It is left alone until the owner removes it, the node's
    /// clique changes, or an hour has passed.
    pub fn owned_by_others(&mut self, write: LabelWrite, now: Instant) {
        self.again(write, Label::Foreign, now + FOREIGN_RETRY_AFTER);
    }

    /// The label was not written. The write is retried.
    pub fn failed(&mut self, write: LabelWrite, now: Instant) {
        self.again(write, Label::Unknown, now + RETRY_AFTER);
    }

    fn again(&mut self, write: LabelWrite, label: Label, at: Instant) {
        if let Some(node) = self.nodes.get_mut(&write.node) {
            node.label = label;
            self.due.insert((at, write.node));
        }
    }

    /// Compares with the current labels of all nodes. A label that was removed or changed is written again.
    pub fn compare_labels(&mut self, labels: &HashMap<Box<str>, Box<str>>, now: Instant) {
        for (name, node) in &mut self.nodes {
            let ReportedClique::Clique(clique) = &node.reported else {
                continue;
            };
            match (labels.get(name), &node.label) {
                (Some(label), _) if **label == **clique => {
                    node.label = Label::Is(Some(label.clone()));
                }
                (Some(_), Label::Foreign) | (_, Label::Unknown) => {}
                _ => {
                    node.label = Label::Unknown;
                    self.due.insert((now, name.clone()));
                }
            }
        }
    }

    /// Handles a slice of a node that has one already. Returns whether the node's clique has changed.
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

    /// Handles the change of a known node's clique. Returns the clique that it has left.
    fn clique_changed(&mut self, slice: NodeSlice) -> Option<Clique> {
        let known = self.nodes.get_mut(&slice.node)?;
        let left = std::mem::replace(&mut known.reported, slice.reported).into_clique()?;
        self.leave(&left);
        Some(left)
    }

    /// Handles a slice of a node without a slice. Returns the clique of its former slice.
    fn node_appeared(&mut self, slice: NodeSlice) -> Option<Clique> {
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
