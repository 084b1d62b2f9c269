//! Actions that the core requests.

use std::net::IpAddr;

use compute_domain_api::driver_managed::DaemonState;

use crate::core::facts::{Report, StartReason};
use crate::core::membership::{Membership, Peers, StartConfig};

/// An action for the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Write the hosts file, unless it is up to date; then call `Core::names_written`.
    WriteNames {
        addresses: Vec<(IpAddr, String)>,
        own_name: String,
    },
    /// Write configuration and node list and start `nvidia-imex`; if that fails, call `Core::exited`.
    Start {
        start_config: StartConfig,
        reason: StartReason,
    },
    /// Send SIGUSR1: names have new addresses, or certificates were renewed.
    Signal,
    /// Send SIGTERM. Call `Core::exited` when the process exits.
    Terminate,
    /// Send SIGKILL.
    Kill,
    /// Query `nvidia-imex-ctl`; then call `Core::answered` with this run.
    QueryStatus { run: u64 },
    /// Read the fabric soon.
    ReadFabric,
    /// Write the state, unless it is up to date; if that fails, call `Core::publish_failed`.
    Publish {
        state: DaemonState,
        /// Why the pod is not ready.
        unready: Option<String>,
    },
    /// Log the report and write an event.
    Report(Report),
}

/// The desired configuration and peers of `nvidia-imex`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) start_config: StartConfig,
    pub(crate) peers: Peers,
}

// === impl Plan ===

impl Plan {
    /// Whether this node's place differs, or an address has moved to another index.
    pub(crate) fn is_moved_by(&self, membership: &Membership) -> bool {
        let is_moved = |(index, address): (&u32, &IpAddr)| {
            let mut peers = membership.peers.iter();
            peers.any(|(new, it)| it == address && new != index)
        };
        membership.start_config != self.start_config || self.peers.iter().any(is_moved)
    }
}
