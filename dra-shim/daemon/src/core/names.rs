//! Which address each name of the node list has.

use std::net::{IpAddr, Ipv4Addr};

use crate::core::membership::{Peers, StartConfig};

/// The address of names without a member. No interface has it, and the kernel refuses a connection at
/// once; a name without any address would be asked of DNS again and again.
pub(crate) const UNASSIGNED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Every name of the node list with its address, in its order.
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

/// Whether a name of `wanted` has an address that `nvidia-imex` was not told of. A name that has lost its
/// address is none: the connection ends by itself.
pub(crate) fn has_new_addresses(wanted: &Peers, known: &Peers) -> bool {
    wanted
        .iter()
        .any(|(index, address)| known.get(index) != Some(address))
}
