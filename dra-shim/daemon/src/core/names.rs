//! Addresses of the names in the node list.

use std::net::{IpAddr, Ipv4Addr};

use crate::core::membership::{Peers, StartConfig};

/// The address of names without a member. No interface has it, so the kernel refuses connections immediately. A name
/// without any address would cause repeated DNS queries.
pub(crate) const UNASSIGNED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Every name of the node list with its address, in the order of the list.
pub(crate) fn addresses(
    start_config: &StartConfig,
    peers: &Peers,
    own: IpAddr,
) -> Vec<(IpAddr, String)> {
    let names = start_config
        .scheme
        .host_names(&start_config.clique, start_config.length);
    (0..)
        .zip(names)
        .map(|(index, name)| {
            let address = if index == start_config.index {
                own
            } else {
                peers.get(&index).copied().unwrap_or(UNASSIGNED)
            };
            (address, name)
        })
        .collect()
}

/// Whether a name of `wanted` has an address that `nvidia-imex` does not know yet. A name that has lost its
/// address does not count: the connection ends by itself.
pub(crate) fn has_new_addresses(wanted: &Peers, known: &Peers) -> bool {
    wanted
        .iter()
        .any(|(index, address)| known.get(index) != Some(address))
}
