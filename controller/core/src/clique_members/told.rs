//! What `ComputeDomains` are told of a node: as the object of its clique has it, by which the IMEX
//! daemons go. It is ready if its daemon's pod is, too.

use std::collections::{BTreeSet, HashMap};

use compute_domain_api::clique::{CliqueDaemon, ComputeDomainClique};
use compute_domain_api::crd::{ComputeDomainNode, ComputeDomainState};

use crate::node_cliques::Said;

use super::CliqueMembers;

impl CliqueMembers {
    /// The nodes of which [`node`](Self::node) may say something new since the last call.
    pub fn take_changed_nodes(&mut self) -> BTreeSet<Box<str>> {
        std::mem::take(&mut self.changed_nodes)
    }

    /// How this node is. One that is no member of its clique, or has no clique, has the index -1 and the
    /// address of its daemon's pod, if there is one; without a clique there is no `nvidia-imex` to wait for,
    /// so that the pod decides whether it is ready.
    // req: MODE-21
    pub fn node(&self, name: &str) -> ComputeDomainNode {
        let said = self.nodes.get(name).map(|node| &node.said);
        let pod = self.pods.member_on(name);
        if let Some(member) = self.member(name, said) {
            // The API server may refuse to write what the pod is by now.
            let is_ready = pod.is_some_and(|pod| pod.ready);
            return ComputeDomainNode {
                name: name.to_owned(),
                ip_address: member.ip_address.clone(),
                clique_id: member.clique_id.clone(),
                index: Some(member.index),
                status: if is_ready {
                    member.status
                } else {
                    ComputeDomainState::NotReady
                },
            };
        }
        let clique = said.and_then(|said| said.clone().into_clique());
        let is_ready = clique.is_none() && pod.is_some_and(|pod| pod.ready);
        ComputeDomainNode {
            name: name.to_owned(),
            ip_address: pod.map(|pod| pod.address.to_string()).unwrap_or_default(),
            clique_id: clique.map(|it| it.to_string()).unwrap_or_default(),
            index: Some(-1),
            status: if is_ready {
                ComputeDomainState::Ready
            } else {
                ComputeDomainState::NotReady
            },
        }
    }

    /// The entry of the node in the clique in which it is. It has an entry in the one that it has left, too,
    /// until its index there is free.
    fn member(&self, name: &str, said: Option<&Said>) -> Option<&CliqueDaemon> {
        let entry = |clique: &str| {
            let object = self.cliques.get(clique)?.observed.as_ref()?;
            let mut daemons = object.spec.daemons.iter();
            daemons.find(|daemon| daemon.node_name == name)
        };
        match said {
            Some(Said::Clique(clique)) => entry(clique),
            Some(Said::NoClique) => None,
            Some(Said::Nothing) | None => {
                let cliques = self.entries_of.get(name).into_iter().flatten();
                let entries = cliques.filter_map(|clique| entry(clique));
                entries.max_by_key(|daemon| !daemon.ip_address.is_empty())
            }
        }
    }

    /// The object of a clique was that, and is this now.
    pub(super) fn note_object(
        &mut self,
        before: Option<&ComputeDomainClique>,
        now: Option<&ComputeDomainClique>,
    ) {
        let by_node = |object: Option<&'_ ComputeDomainClique>| {
            let daemons = object.into_iter().flat_map(|it| it.spec.daemons.clone());
            let by_node = daemons.map(|daemon| (daemon.node_name.clone(), daemon));
            by_node.collect::<HashMap<_, _>>()
        };
        let (before, now) = (by_node(before), by_node(now));
        let names: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        let changed = names
            .into_iter()
            .filter(|name| before.get(*name) != now.get(*name));
        let changed = changed.map(|name| name.as_str().into());
        self.changed_nodes.extend(changed);
    }
}
