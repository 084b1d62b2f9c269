//! The status of a node in `ComputeDomains`: as the object of its clique has it, by which the IMEX
//! daemons go. It is ready if its daemon's pod is, too.

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

    /// The status of this node. One that is no member of its clique, or has no clique, has the index -1 and the
    /// address of its daemon's pod, if there is one; without a clique there is no `nvidia-imex` to wait for,
    /// so that the pod decides whether it is ready.
    // req: MODE-21
    pub fn node(&self, name: &str) -> ComputeDomainNode {
        let reported = self.observed.reported(name);
        let pod = self.observed.pods.member_on(name);
        // The API server may refuse to write what the pod is by now.
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

    /// The entry of the node in the clique in which it is. It has an entry in the one that it has left, too,
    /// until its index there is free.
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

    /// The object of a clique was that, and is this now.
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
