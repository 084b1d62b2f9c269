//! The objects from the watches, and the facts about a clique's members that follow from them.

use std::collections::BTreeMap;

use compute_domain_api::clique::CliqueDaemon;

use crate::cliques::Clique;
use crate::node_cliques::ReportedClique;

use super::facts::{Candidate, CliqueFacts, MemberState};
use super::members::{Entry, Members};
use super::nodes::Nodes;
use super::pods::{DaemonPod, Pods};

/// The nodes, the daemons' pods and the cliques.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) nodes: Nodes,
    pub(super) pods: Pods,
    pub(super) cliques: BTreeMap<Clique, Members>,
}

// === impl Observed ===

impl Observed {
    pub(super) fn facts(&self, clique: &Clique) -> CliqueFacts {
        let members = self.cliques.get(clique);
        let entries = || members.iter().flat_map(|members| &members.entries);
        let nodes = || self.nodes.of(clique);
        let states = entries().map(|(name, it)| (name.clone(), self.state(clique, &it.daemon)));
        let places = nodes().filter_map(|(name, node)| Some((name.clone(), node.place?)));
        let with_slice = nodes().filter(|(_, node)| node.slice.is_some());
        let candidates = with_slice.filter_map(|(name, node)| {
            Some(Candidate {
                node: name.clone(),
                uid: node.uid.clone(),
                pod: self.pods.member_on(name)?.clone(),
            })
        });
        let members = entries().map(|(name, _)| name);
        let mut all = members.chain(nodes().map(|(name, _)| name));
        CliqueFacts {
            states: states.collect(),
            places: places.collect(),
            candidates: candidates.collect(),
            is_idle: !all.any(|name| self.pods.may_run_on(name)),
        }
    }

    /// The cliques in which the node has an entry.
    pub(super) fn cliques_of(&self, node: &str) -> impl Iterator<Item = &Clique> {
        let cliques = self.cliques.iter();
        let cliques = cliques.filter(move |(_, members)| members.entries.contains_key(node));
        cliques.map(|(clique, _)| clique)
    }

    pub(super) fn is_member(&self, node: &str) -> bool {
        self.cliques_of(node).next().is_some()
    }

    pub(super) fn entry_mut(&mut self, clique: &Clique, node: &str) -> Option<&mut Entry> {
        self.cliques.get_mut(clique)?.entries.get_mut(node)
    }

    pub(super) fn has_members(&self) -> bool {
        self.entries().next().is_some()
    }

    /// The members whose nodes are marked as draining.
    pub(super) fn marked(&self) -> impl Iterator<Item = &Entry> {
        self.entries().filter(|it| !it.daemon.draining.is_empty())
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let members = self.cliques.values();
        members.flat_map(|members| members.entries.values())
    }

    /// The node's clique, as a slice reported it last.
    pub(super) fn reported(&self, node: &str) -> &ReportedClique {
        let node = self.nodes.get(node);
        node.map_or(&ReportedClique::Nothing, |node| &node.reported)
    }

    fn state(&self, clique: &Clique, daemon: &CliqueDaemon) -> MemberState {
        let name = daemon.node_name.as_str();
        let node = self.nodes.get(name);
        let has_slice = node.is_some_and(|node| node.slice.is_some());
        let is_known_to_live = has_slice || self.pods.may_run_on(name);
        let former_may_run = self.former_may_run(daemon);
        let is_reported = match self.reported(name) {
            ReportedClique::Clique(reported) if reported == clique => true,
            ReportedClique::Nothing => false,
            ReportedClique::Clique(_) | ReportedClique::NoClique => {
                return MemberState::Left {
                    former_may_run,
                    has_settled: !former_may_run || self.has_settled(name),
                };
            }
        };
        let uid = node.map_or(daemon.node_uid.as_str(), |node| &node.uid);
        // An entry without a UID was written by another client, or the CRD had no such field.
        let is_same_node = uid == daemon.node_uid || daemon.node_uid.is_empty();
        if !is_reported && is_same_node && !self.was_last_in(clique, name) {
            return MemberState::Unknown { is_known_to_live };
        }
        let pod = self.pods.member_on(name);
        // An entry without an address: the daemon was in another clique in between, and had this index before.
        let is_same_daemon = |pod: &DaemonPod| {
            *pod.uid == *daemon.pod_uid
                && (daemon.ip_address.is_empty() || *pod.address == *daemon.ip_address)
        };
        // `None` if an address is missing.
        let is_same_machine = |pod: &DaemonPod| {
            let are_known = !pod.host.is_empty() && !daemon.host_ip.is_empty();
            are_known.then(|| *pod.host == *daemon.host_ip)
        };
        let is_member = match pod {
            Some(pod) if is_same_daemon(pod) => true,
            // The pod of another machine may be known before its slice.
            Some(pod) if is_same_node => is_same_machine(pod) != Some(false),
            Some(pod) => is_same_machine(pod) == Some(true) && is_reported && !former_may_run,
            None => is_same_node,
        };
        if is_member {
            MemberState::Member {
                pod: pod.cloned(),
                uid: uid.into(),
                is_known_to_live,
            }
        } else if pod.is_some() && is_reported && !former_may_run {
            MemberState::OtherMachine
        } else {
            MemberState::Replaced { former_may_run }
        }
    }

    /// Whether the node's daemon is a member only of this clique, according to the entries. They were written
    /// when a slice reported that.
    fn was_last_in(&self, clique: &Clique, node: &str) -> bool {
        let entries = self
            .cliques
            .iter()
            .filter_map(|(clique, members)| Some((clique, members.entries.get(node)?)));
        let mut with_daemon = entries.filter(|(_, entry)| !entry.daemon.ip_address.is_empty());
        let first = with_daemon.next().map(|(clique, _)| clique);
        first == Some(clique) && with_daemon.next().is_none()
    }

    /// Whether the entry's daemon may still run: its pod exists with the same address. It has another one only
    /// after a restart. An entry without a pod is about one that is being deleted.
    fn former_may_run(&self, daemon: &CliqueDaemon) -> bool {
        let (uid, address) = (daemon.pod_uid.as_str(), daemon.ip_address.as_str());
        let is_it = |pod: &DaemonPod| {
            if uid.is_empty() {
                return pod.ending;
            }
            *pod.uid == *uid && (address.is_empty() || *pod.address == *address)
        };
        self.pods.on(&daemon.node_name).any(is_it)
    }

    /// Whether the daemon of a node that has left its clique no longer runs there. It soon follows its node into
    /// the other clique, and becomes ready again only there. Its entry here no longer has an address.
    fn has_settled(&self, name: &str) -> bool {
        let Some(pod) = self.pods.member_on(name).filter(|pod| pod.ready) else {
            return false;
        };
        match self.reported(name) {
            ReportedClique::Clique(clique) => {
                let other = self.cliques.get(clique);
                other.is_some_and(|members| members.has_member(name, &pod.uid))
            }
            ReportedClique::NoClique => true,
            ReportedClique::Nothing => false,
        }
    }
}
