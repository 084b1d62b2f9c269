//! The nodes of each ComputeDomain in driver-managed mode, and the state of their IMEX daemons.
//!
//! ```text
//! list of a domain's claims ─> the domain's nodes ─┐
//!                                                  ├─> Nodes, for its status
//! CliqueMembers ─> the state of each node ─────────┘
//!        └─> a node has changed ─> the domains that have it
//! ```
//!
//! A change of a node costs work only for the `ComputeDomains` that have it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use compute_domain_api::crd::{ComputeDomainNode, ComputeDomainState};

use crate::index::Key;
use crate::nodes::{CliqueRefusal, Nodes};

/// The nodes of all `ComputeDomains`. Synchronous, without I/O.
#[derive(Debug, Default)]
pub struct DomainNodes {
    /// The names of the nodes of each ComputeDomain whose claims are known, possibly none.
    of_domain: HashMap<Key, BTreeSet<NodeName>>,
    /// The `ComputeDomains` of each node, at least one.
    domains_on: HashMap<NodeName, BTreeSet<Key>>,
    /// The state of each known node.
    known: HashMap<NodeName, ComputeDomainNode>,
    /// The API server's message for each `ComputeDomainClique` that it rejects, by name.
    refused: HashMap<Box<str>, Box<str>>,
    /// Whether `known` is complete.
    all_known: bool,
    /// The nodes that have got or lost a ComputeDomain since the last [`take_uses`](Self::take_uses).
    changed_uses: BTreeSet<NodeName>,
}

type NodeName = Arc<str>;

// === impl DomainNodes ===

impl DomainNodes {
    /// Forgets everything.
    pub fn clear(&mut self) {
        let mut changed_uses = std::mem::take(&mut self.changed_uses);
        changed_uses.extend(self.domains_on.keys().cloned());
        *self = Self {
            changed_uses,
            ..Self::default()
        };
    }

    /// The nodes whose use may have changed since the last call, and whether a ComputeDomain has claims on them.
    pub fn take_uses(&mut self) -> Vec<(Box<str>, bool)> {
        let changed = std::mem::take(&mut self.changed_uses).into_iter();
        let in_use = |name: NodeName| (Box::from(&*name), self.domains_on.contains_key(&name));
        changed.map(in_use).collect()
    }

    /// Sets the nodes to which claims of this ComputeDomain are allocated. Returns whether they have changed.
    pub fn set_domain(&mut self, key: &Key, nodes: impl IntoIterator<Item = Box<str>>) -> bool {
        let nodes: BTreeSet<_> = nodes.into_iter().map(|it| self.shared_name(&it)).collect();
        if self.of_domain.get(key) == Some(&nodes) {
            return false;
        }
        self.leave(key);
        for node in &nodes {
            let domains = self.domains_on.entry(node.clone()).or_default();
            domains.insert(key.clone());
            self.changed_uses.insert(node.clone());
        }
        self.of_domain.insert(key.clone(), nodes);
        true
    }

    /// The ComputeDomain has no claims, or is deleted. Returns whether it had nodes.
    pub fn forget_domain(&mut self, key: &Key) -> bool {
        self.leave(key)
    }

    /// Whether the ComputeDomain is known to have a node.
    pub fn has_any(&self, key: &str) -> bool {
        let nodes = self.of_domain.get(key);
        nodes.is_some_and(|nodes| !nodes.is_empty())
    }

    /// The `ComputeDomains` whose nodes are known.
    pub fn domains(&self) -> impl Iterator<Item = &Key> {
        self.of_domain.keys()
    }

    /// Sets the state of a node. Returns the `ComputeDomains` whose status has to change.
    // req: MODE-23
    pub fn set_node(&mut self, node: ComputeDomainNode) -> Vec<Key> {
        let before = self.node(&node.name);
        if before == node {
            return Vec::new();
        }
        let name = self.shared_name(&node.name);
        let domains = self.domains_on.get(&name).into_iter().flatten();
        let domains = domains.cloned().collect();
        if node == unknown(&node.name) {
            self.known.remove(&name);
        } else {
            self.known.insert(name, node);
        }
        domains
    }

    /// Sets or clears the API server's rejection of this clique's object. Returns the `ComputeDomains` that have nodes
    /// in it.
    pub fn set_refusal(&mut self, clique: &str, refusal: Option<&str>) -> Vec<Key> {
        let before = self.refused.get(clique).map(|refusal| &**refusal);
        if before == refusal {
            return Vec::new();
        }
        match refusal {
            Some(refusal) => self.refused.insert(clique.into(), refusal.into()),
            None => self.refused.remove(clique),
        };
        let in_clique = |name: &NodeName| {
            let node = self.known.get(name);
            node.is_some_and(|node| node.clique_id == clique)
        };
        let nodes = self.domains_on.iter().filter(|(name, _)| in_clique(name));
        let domains: BTreeSet<_> = nodes.flat_map(|(_, domains)| domains.clone()).collect();
        domains.into_iter().collect()
    }

    /// All nodes of the driver are known now: an unknown node is not the driver's. Returns the `ComputeDomains` whose
    /// nodes are known.
    pub fn all_nodes_known(&mut self) -> Vec<Key> {
        self.all_known = true;
        self.of_domain.keys().cloned().collect()
    }

    /// The nodes of this ComputeDomain. `has_claims`: whether it has claims.
    // req: MODE-21, MODE-24
    pub fn of(&self, key: &str, has_claims: bool) -> Nodes {
        match self.of_domain.get(key) {
            None if !has_claims => Nodes::known(Vec::new()),
            Some(names) if self.all_known => {
                let nodes: Vec<_> = names.iter().map(|name| self.node(name)).collect();
                let refused = nodes.iter().find_map(|node| self.refusal_of(node));
                Nodes::Known { nodes, refused }
            }
            _ => Nodes::Unknown,
        }
    }

    /// The rejection by the API server that keeps the node's daemon from becoming ready, if any.
    fn refusal_of(&self, node: &ComputeDomainNode) -> Option<CliqueRefusal> {
        let is_ready = node.status == ComputeDomainState::Ready;
        let message = self.refused.get(&*node.clique_id).filter(|_| !is_ready)?;
        Some(CliqueRefusal {
            clique: node.clique_id.as_str().into(),
            message: message.clone(),
        })
    }

    fn node(&self, name: &str) -> ComputeDomainNode {
        let known = self.known.get(name);
        known.cloned().unwrap_or_else(|| unknown(name))
    }

    fn leave(&mut self, key: &Key) -> bool {
        let Some(nodes) = self.of_domain.remove(key) else {
            return false;
        };
        for node in &nodes {
            if let Some(domains) = self.domains_on.get_mut(node) {
                domains.remove(key);
                if domains.is_empty() {
                    self.domains_on.remove(node);
                    self.changed_uses.insert(node.clone());
                }
            }
        }
        !nodes.is_empty()
    }

    /// The shared copy of the name.
    fn shared_name(&self, name: &str) -> NodeName {
        let known = self.known.get_key_value(name).map(|(name, _)| name);
        let held = || self.domains_on.get_key_value(name).map(|(name, _)| name);
        known.or_else(held).cloned().unwrap_or_else(|| name.into())
    }
}

/// The state of an unknown node.
fn unknown(name: &str) -> ComputeDomainNode {
    ComputeDomainNode {
        name: name.to_owned(),
        ip_address: String::new(),
        clique_id: String::new(),
        index: Some(-1),
        status: ComputeDomainState::NotReady,
    }
}

#[cfg(test)]
mod tests;
