//! This node's membership according to its `ComputeDomainClique`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use compute_domain_api::clique::{CliqueDaemon, ComputeDomainCliqueRoot};
use compute_domain_api::driver_managed::NameScheme;

/// Identity of this daemon. It does not change while the process runs.
#[derive(Debug, Clone)]
pub(crate) struct NodeIdentity {
    pub(crate) node: String,
    pub(crate) pod_uid: String,
    pub(crate) address: IpAddr,
}

/// Settings that `nvidia-imex` reads only when it starts. A change requires a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartConfig {
    pub(crate) clique: String,
    /// This node's line in the node list.
    pub(crate) index: u32,
    /// Number of lines of the node list.
    pub(crate) length: u32,
    pub(crate) scheme: NameScheme,
}

/// The addresses of the other members, by index.
pub(crate) type Peers = BTreeMap<u32, IpAddr>;

/// This node as a member of its clique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) start_config: StartConfig,
    pub(crate) peers: Peers,
    /// This pod is about to be replaced.
    pub(crate) is_draining: bool,
}

// === impl StartConfig ===

impl StartConfig {
    /// This node's host name.
    pub(crate) fn own_name(&self) -> String {
        self.scheme.host_name(&self.clique, self.index)
    }
}

// === impl Membership ===

impl Membership {
    /// Reads the object of `clique`.
    ///
    /// # Errors
    /// Why this node is not a member yet, as one sentence.
    // req: DAEMON-3
    pub(crate) fn read(
        clique: &str,
        object: &ComputeDomainCliqueRoot,
        me: &NodeIdentity,
    ) -> Result<Self, String> {
        let (Some(length), Some(scheme)) = (object.list_length, object.name_scheme) else {
            return Err(format!(
                "ComputeDomainClique {clique} has no listLength or nameScheme: the controller did not create it"
            ));
        };
        let own = object.daemons.iter().find(|it| it.node_name == me.node);
        let own = own.ok_or_else(|| {
            format!(
                "node {} is not in ComputeDomainClique {clique}: the controller has not added it yet, or all {length} places in the node list are taken (see the node's events)",
                me.node
            )
        })?;
        let index = place(own, length)?;
        if own.ip_address.is_empty() {
            return Err(format!(
                "the controller has not written the address of this pod, {}, to ComputeDomainClique {clique} yet",
                me.address
            ));
        }
        let known_as: Option<IpAddr> = own.ip_address.parse().ok();
        if known_as != Some(me.address) {
            return Err(format!(
                "ComputeDomainClique {clique} has the address {:?} for this node, but this pod's address is {}",
                own.ip_address, me.address
            ));
        }
        let others = || object.daemons.iter().filter(|it| it.node_name != me.node);
        if let Some(twin) = others().find(|it| it.index == own.index) {
            return Err(format!(
                "nodes {} and {} have the same index {index} in ComputeDomainClique {clique}",
                me.node, twin.node_name
            ));
        }
        let peers = others().filter_map(|it| peer(it, length, me)).collect();
        Ok(Self {
            start_config: StartConfig {
                clique: clique.to_owned(),
                index,
                length,
                scheme,
            },
            peers,
            is_draining: !me.pod_uid.is_empty() && own.draining == me.pod_uid,
        })
    }
}

fn place(own: &CliqueDaemon, length: u32) -> Result<u32, String> {
    let index = u32::try_from(own.index).ok();
    index.filter(|index| *index < length).ok_or_else(|| {
        format!(
            "the index of node {} is {}, but the node list has {length} lines",
            own.node_name, own.index
        )
    })
}

/// A member with an address other than this pod's. Otherwise the member's pod was deleted and this pod has got its
/// address: `nvidia-imex` would take that line for its own.
fn peer(member: &CliqueDaemon, length: u32, me: &NodeIdentity) -> Option<(u32, IpAddr)> {
    let index = place(member, length).ok()?;
    let address = member.ip_address.parse().ok()?;
    (address != me.address).then_some((index, address))
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
