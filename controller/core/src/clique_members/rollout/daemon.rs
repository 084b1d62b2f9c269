//! The parts of a member that the update needs.

use crate::cliques::Clique;
use crate::node_cliques::ReportedClique;

use crate::clique_members::observed::Observed;
use crate::clique_members::pods::DaemonPod;

pub(super) struct Daemon<'a> {
    pub(super) node: &'a str,
    pub(super) index: i64,
    /// Whether it has a slice, which shows that its plugin runs.
    pub(super) has_slice: bool,
    pub(super) pod: Option<&'a DaemonPod>,
    pub(super) is_marked: bool,
    /// Whether its slice reports for this pod that no claim is prepared.
    pub(super) is_drained: bool,
}

// === impl Daemon ===

impl<'a> Daemon<'a> {
    /// The members whose nodes are in the clique. Members that have left it keep their index for a while, but are
    /// not returned.
    pub(super) fn all_of(observed: &'a Observed, clique: &Clique) -> Vec<Self> {
        let members = observed.cliques.get(clique);
        let entries = members.iter().flat_map(|members| &members.entries);
        let stay = entries.filter(|(name, _)| match observed.reported(name) {
            ReportedClique::Clique(reported) => reported == clique,
            ReportedClique::NoClique => false,
            ReportedClique::Nothing => true,
        });
        let daemons = stay.map(|(name, entry)| {
            let node = observed.nodes.get(name);
            let pod = observed.pods.member_on(name);
            let pod = pod.filter(|pod| *pod.uid == *entry.daemon.pod_uid);
            let drained = node.and_then(|node| node.drained.as_ref());
            Self {
                node: name,
                index: entry.daemon.index,
                has_slice: node.is_some_and(|node| node.slice.is_some()),
                is_marked: !entry.daemon.draining.is_empty(),
                is_drained: pod.is_some_and(|pod| drained == Some(&pod.uid)),
                pod,
            }
        });
        daemons.collect()
    }
}
