//! The nodes, from their slices.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use compute_domain_api::driver_managed::Place;

use crate::cliques::Clique;
use crate::listing::Listing;
use crate::node_cliques::{NodeSlice, ReportedClique};

/// The nodes that have a slice, or had one and are still needed.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    known: HashMap<Box<str>, Node>,
    /// The nodes of each clique, at least one.
    of_clique: BTreeMap<Clique, BTreeSet<Box<str>>>,
    listing: Listing,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) uid: Box<str>,
    /// The name of its slice, if there is one.
    pub(super) slice: Option<Box<str>>,
    /// The clique that a slice reported last.
    pub(super) reported: ReportedClique,
    /// The daemon's pod for which its slice reports that no claim is prepared.
    pub(super) drained: Option<Box<str>>,
    /// The place in that clique with which its `nvidia-imex` runs, from its slice.
    pub(super) place: Option<Place>,
}

// === impl Nodes ===

impl Nodes {
    pub(super) fn begin(&mut self) {
        self.listing.begin();
    }

    /// Returns the nodes whose slice is deleted.
    pub(super) fn finish(&mut self) -> Vec<Box<str>> {
        let mut gone = self.listing.finish(self.known.keys());
        gone.retain(|name| self.known.get_mut(name).is_some_and(Node::lose_slice));
        gone
    }

    /// Returns the node's former clique, and whether the slice has changed anything.
    pub(super) fn apply(&mut self, slice: &NodeSlice) -> (Option<Clique>, bool) {
        let name: Box<str> = slice.node().into();
        self.listing.add(&name);
        let before = self.known.get(&name).cloned();
        let was_in = before
            .as_ref()
            .and_then(|node| node.reported.clone().into_clique());
        let same = before
            .as_ref()
            .filter(|node| *node.uid == *slice.node_uid());
        // A slice without a clique changes nothing, unless it belongs to another Node of the name.
        let reported = match (slice.reported(), same) {
            (ReportedClique::Nothing, Some(node)) => node.reported.clone(),
            (reported, _) => reported.clone(),
        };
        let node = Node {
            uid: slice.node_uid().into(),
            slice: Some(slice.slice().into()),
            reported,
            drained: slice.drained().map(Box::from),
            place: slice.place(),
        };
        let has_changed = before.as_ref() != Some(&node);
        if let Some(clique) = &was_in {
            self.leave(clique, &name);
        }
        if let ReportedClique::Clique(clique) = &node.reported {
            let nodes = self.of_clique.entry(clique.clone()).or_default();
            nodes.insert(name.clone());
        }
        self.known.insert(name, node);
        (was_in, has_changed)
    }

    /// Returns whether the node has no slice now. The watch may have delivered a new one before.
    pub(super) fn remove(&mut self, slice: &NodeSlice) -> bool {
        let Some(node) = self.known.get_mut(slice.node()) else {
            return false;
        };
        node.slice.as_deref() == Some(slice.slice()) && node.lose_slice()
    }

    /// Forgets the node if it has no slice.
    pub(super) fn forget(&mut self, name: &str) {
        let Some(node) = self.known.get(name).filter(|node| node.slice.is_none()) else {
            return;
        };
        if let Some(clique) = node.reported.clone().into_clique() {
            self.leave(&clique, name);
        }
        self.known.remove(name);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.known.get(name)
    }

    /// The nodes in this clique, as last reported.
    pub(super) fn of(&self, clique: &str) -> impl Iterator<Item = (&Box<str>, &Node)> {
        let names = self.of_clique.get(clique).into_iter().flatten();
        names.filter_map(|name| self.known.get_key_value(name))
    }

    fn leave(&mut self, clique: &Clique, name: &str) {
        if let Some(nodes) = self.of_clique.get_mut(clique) {
            nodes.remove(name);
            if nodes.is_empty() {
                self.of_clique.remove(clique);
            }
        }
    }
}

// === impl Node ===

impl Node {
    /// Returns whether it had a slice.
    fn lose_slice(&mut self) -> bool {
        (self.drained, self.place) = (None, None);
        self.slice.take().is_some()
    }
}
