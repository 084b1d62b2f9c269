//! The status of a node in `ComputeDomains`: that of the clique's object, which the IMEX daemons use. The node is
//! ready only if its daemon's pod is ready, too.

use std::collections::BTreeSet;

use compute_domain_api::clique::{CliqueDaemon, ComputeDomainClique};
use compute_domain_api::crd::{ComputeDomainNode, ComputeDomainState};

use crate::node_cliques::ReportedClique;

use super::CliqueMembers;

impl CliqueMembers {
    /// The nodes whose [`node`](Self::node) may have changed since the last call.
    pub fn take_changed_nodes(&mut self) -> BTreeSet<Box<str>> {
        std::mem::take(&mut self.changed_nodes)
    }

    /// The status of this node. A node that is not a member of its clique, or has no clique, has the index -1 and
    /// the address of its daemon's pod, if any. Without a clique there is no `nvidia-imex`, so only the pod decides
    /// whether the node is ready.
    // req: MODE-21
    pub fn node(&self, name: &str) -> ComputeDomainNode {
        let reported = self.observed.reported(name);
        let pod = self.observed.pods.member_on(name);
        // The object may be older than the pod, if the API server rejects it.
        let is_ready = pod.is_some_and(|pod| pod.ready);
        let mut node = ComputeDomainNode {
            name: name.to_owned(),
            ..ComputeDomainNode::default()
        };
        let status = if let Some(member) = self.member(name, reported) {
            node.ip_address.clone_from(&member.ip_address);
            node.clique_id.clone_from(&member.clique_id);
            node.index = Some(member.index);
            member.status
        } else {
            node.ip_address = pod.map(|pod| pod.address.to_string()).unwrap_or_default();
            node.index = Some(-1);
            if let ReportedClique::Clique(clique) = reported {
                node.clique_id = clique.to_string();
                ComputeDomainState::NotReady
            } else {
                ComputeDomainState::Ready
            }
        };
        node.status = if is_ready {
            status
        } else {
            ComputeDomainState::NotReady
        };
        node
    }

    /// The node's entry in its current clique. It also has an entry in a clique that it has left, until its index
    /// there is free.
    fn member(&self, name: &str, reported: &ReportedClique) -> Option<&CliqueDaemon> {
        let entry = |clique: &str| {
            let object = self.observed.cliques.get(clique)?.observed.as_ref()?;
            let mut daemons = object.spec.daemons.iter();
            daemons.find(|daemon| daemon.node_name == name)
        };
        match reported {
            ReportedClique::Clique(clique) => entry(clique),
            ReportedClique::NoClique => None,
            ReportedClique::Nothing => {
                let cliques = self.observed.cliques_of(name);
                let entries = cliques.filter_map(|clique| entry(clique));
                entries.max_by_key(|daemon| !daemon.ip_address.is_empty())
            }
        }
    }

    /// Records the nodes that differ between the former and the new object of a clique.
    pub(super) fn note_object<'a>(
        &mut self,
        before: Option<&'a ComputeDomainClique>,
        now: Option<&'a ComputeDomainClique>,
    ) {
        let daemons =
            |it: Option<&'a ComputeDomainClique>| it.map_or(&[][..], |it| &it.spec.daemons);
        let (before, now) = (daemons(before), daemons(now));
        let lost = before.iter().filter(|daemon| !now.contains(daemon));
        let new = now.iter().filter(|daemon| !before.contains(daemon));
        let changed = lost.chain(new).map(|it| it.node_name.as_str().into());
        self.changed_nodes.extend(changed);
    }
}
