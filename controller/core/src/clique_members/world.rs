//! What a member of a clique is at the moment, by what is known of its node and its daemon.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use compute_domain_api::clique::CliqueDaemon;
use compute_domain_api::resident::Place;

use crate::cliques::Clique;
use crate::node_cliques::Said;

use super::members::{Candidate, Members};
use super::nodes::Nodes;
use super::pods::{DaemonPod, Pods};
use super::standing::{PodFacts, Standing};

/// Everything that decides about it.
pub(super) struct World<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) pods: &'a Pods,
    pub(super) cliques: &'a BTreeMap<Clique, Members>,
    /// The cliques in which a node has an entry.
    pub(super) entries_of: &'a HashMap<Box<str>, BTreeSet<Clique>>,
}

impl World<'_> {
    /// What this member of this clique is.
    pub(super) fn standing(&self, clique: &str, daemon: &CliqueDaemon) -> Standing {
        let name = daemon.node_name.as_str();
        let node = self.nodes.get(name);
        let has_slice = node.is_some_and(|node| node.slice.is_some());
        let is_known_to_live = has_slice || self.pods.may_run_on(name);
        let has_said = match node.map(|node| &node.said) {
            Some(Said::Clique(said)) => Some(**said == *clique),
            Some(Said::NoClique) => Some(false),
            Some(Said::Nothing) | None => None,
        };
        if has_said == Some(false) {
            let former_may_run = self.former_may_run(daemon);
            return Standing::Left {
                former_may_run,
                has_settled: !former_may_run || self.has_settled(clique, name),
            };
        }
        let uid = node.map_or(daemon.node_uid.as_str(), |node| &node.uid);
        // Without a UID, somebody else has written it, or the CRD had no such field.
        let is_same_node = uid == daemon.node_uid || daemon.node_uid.is_empty();
        if has_said.is_none() && is_same_node && !self.was_last_in(clique, name) {
            return Standing::Unknown { is_known_to_live };
        }
        let pod = self.pods.member_on(name).map(PodFacts::new);
        // Without an address, it has been in another clique in between, and has had this index before.
        let is_same_daemon = |pod: &PodFacts| {
            *pod.uid == *daemon.pod_uid
                && (daemon.ip_address.is_empty() || *pod.address == *daemon.ip_address)
        };
        // `None`: an address is missing.
        let is_same_machine = |pod: &PodFacts| {
            let are_known = !pod.host.is_empty() && !daemon.host_ip.is_empty();
            are_known.then(|| *pod.host == *daemon.host_ip)
        };
        let former_may_run = self.former_may_run(daemon);
        let is_member = match &pod {
            Some(pod) if is_same_daemon(pod) => true,
            // The pod of another machine may be known before its slice.
            Some(pod) if is_same_node => is_same_machine(pod) != Some(false),
            Some(pod) => {
                is_same_machine(pod) == Some(true) && has_said.is_some() && !former_may_run
            }
            None => is_same_node,
        };
        if is_member {
            return Standing::Member {
                pod,
                uid: uid.into(),
                is_known_to_live,
            };
        }
        if pod.is_some() && has_said.is_some() && !former_may_run {
            Standing::OtherMachine
        } else {
            Standing::Replaced { former_may_run }
        }
    }

    /// With which places `nvidia-imex` runs on nodes of the clique, as their slices say.
    pub(super) fn places(&self, clique: &str) -> BTreeMap<Box<str>, Place> {
        let places = self.nodes.of(clique).filter_map(|name| {
            let place = self.nodes.get(name)?.place?;
            Some((name.clone(), place))
        });
        places.collect()
    }

    /// The nodes of the clique that have a slice and a daemon, and are no members.
    pub(super) fn candidates(&self, clique: &str, members: &Members) -> Vec<Candidate> {
        let new = self
            .nodes
            .of(clique)
            .filter(|name| !members.entries.contains_key(*name));
        let candidate = |name: &str| {
            let node = self.nodes.get(name).filter(|node| node.slice.is_some())?;
            Some(Candidate {
                node: name.into(),
                uid: node.uid.clone(),
                pod: PodFacts::new(self.pods.member_on(name)?),
            })
        };
        new.filter_map(|name| candidate(name)).collect()
    }

    /// Whether no daemon of the clique runs, nor of one that is to come.
    pub(super) fn is_idle(&self, clique: &str, members: &Members) -> bool {
        let mut all = members.entries.keys().chain(self.nodes.of(clique));
        !all.any(|name| self.pods.may_run_on(name))
    }

    /// Whether the entries say that the node's daemon is a member of this clique and no other: they were
    /// written when a slice said so.
    fn was_last_in(&self, clique: &str, node: &str) -> bool {
        let cliques = self.entries_of.get(node).into_iter().flatten();
        let with_daemon = cliques.filter(|other| {
            let members = self.cliques.get(*other);
            let entry = members.and_then(|members| members.entries.get(node));
            entry.is_some_and(|entry| !entry.daemon.ip_address.is_empty())
        });
        let with_daemon: Vec<_> = with_daemon.collect();
        matches!(with_daemon[..], [only] if **only == *clique)
    }

    /// Whether the daemon that the entry is about may run: its pod, and not at another address, which
    /// it has only after a new start. The entry does not name one that is being deleted.
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

    /// A daemon follows its node into another clique within a moment, and is ready again only there: its
    /// entry here has no address any more.
    fn has_settled(&self, left: &str, name: &str) -> bool {
        let Some(pod) = self.pods.member_on(name).filter(|pod| pod.ready) else {
            return false;
        };
        match self.nodes.get(name).map(|node| &node.said) {
            Some(Said::Clique(clique)) if **clique != *left => {
                let other = self.cliques.get(clique);
                other.is_some_and(|members| members.has_member(name, &pod.uid))
            }
            Some(Said::NoClique) => true,
            _ => false,
        }
    }
}
