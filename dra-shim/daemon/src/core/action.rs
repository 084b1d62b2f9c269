//! What the core wants done.

use std::net::IpAddr;

use compute_domain_api::driver_managed::DaemonState;

use crate::core::facts::{Report, StartReason};
use crate::core::membership::{Membership, Peers, StartConfig};

/// Something that has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Write the hosts file, unless it is so already; then tell `Core::names_written`.
    WriteNames {
        addresses: Vec<(IpAddr, String)>,
        own_name: String,
    },
    /// Write configuration and node list and start `nvidia-imex`; if that fails, tell `Core::exited`.
    Start {
        start_config: StartConfig,
        reason: StartReason,
    },
    /// SIGUSR1: names have new addresses, or certificates are renewed.
    Signal,
    /// SIGTERM; then tell `Core::exited`.
    Terminate,
    /// SIGKILL.
    Kill,
    /// Ask `nvidia-imex-ctl`; then tell `Core::answered` with this run.
    Ask { run: u64 },
    /// Read the fabric soon.
    ReadFabric,
    /// Write the state, unless it is so already; if that fails, tell `Core::publish_failed`.
    Publish {
        state: DaemonState,
        /// Why the pod is not ready.
        unready: Option<String>,
    },
    /// Tell people.
    Report(Report),
}

/// What `nvidia-imex` should be run with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) start_config: StartConfig,
    pub(crate) peers: Peers,
}

// === impl Plan ===

impl Plan {
    /// Whether it has another seat, or an address at another index.
    pub(crate) fn is_moved_by(&self, membership: &Membership) -> bool {
        let is_moved = |(index, address): (&u32, &IpAddr)| {
            let mut peers = membership.peers.iter();
            peers.any(|(new, it)| it == address && new != index)
        };
        membership.start_config != self.start_config || self.peers.iter().any(is_moved)
    }
}
