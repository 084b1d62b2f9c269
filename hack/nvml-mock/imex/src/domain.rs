//! A daemon's state of its domain, shared by its threads.

use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::node_list::NodeList;
use crate::tls::Transport;

/// One daemon's view of its domain.
#[derive(Debug)]
pub struct Domain {
    /// The names of all nodes.
    pub nodes: NodeList,
    /// This node's line.
    pub own: usize,
    /// This node's address.
    pub address: IpAddr,
    /// The port on which all listen.
    pub port: u16,
    /// How the nodes connect.
    pub transport: Transport,
    shared: Mutex<Shared>,
    changed: Condvar,
}

/// A daemon's connection to another.
#[derive(Debug, Clone)]
pub struct Link {
    /// `NEVER_CONNECTED`, `CONNECTED`, `RECOVERING` or `INVALID`.
    pub status: &'static str,
    /// The last dialled address.
    pub address: Option<IpAddr>,
    /// When the status changed last.
    pub changed: SystemTime,
}

#[derive(Debug)]
struct Shared {
    state: String,
    links: Vec<Link>,
    /// Incremented by each request to redial.
    round: u64,
    round_began: Option<Instant>,
    ends: bool,
}

/// Why a dialler wakes up.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum WakeReason {
    /// The time is over.
    Timeout,
    /// Redial everything.
    NewRound,
    /// The daemon ends.
    End,
}

/// A request to redial within this time after the last one is ignored.
const ROUND_PAUSE: Duration = Duration::from_secs(5);

impl Domain {
    /// A daemon that has just found its line in the node list.
    pub fn new(
        nodes: NodeList,
        own: usize,
        (address, port): (IpAddr, u16),
        transport: Transport,
    ) -> Self {
        let link = Link {
            status: "NEVER_CONNECTED",
            address: None,
            changed: SystemTime::now(),
        };
        let links = vec![link; nodes.names().len()];
        Self {
            nodes,
            own,
            address,
            port,
            transport,
            shared: Mutex::new(Shared {
                state: "INITIALIZING".to_owned(),
                links,
                round: 0,
                round_began: None,
                ends: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// The state, as `nvidia-imex-ctl -q` prints it.
    pub fn state(&self) -> String {
        self.lock().state.clone()
    }

    /// Sets the state.
    pub fn set_state(&self, state: &str) {
        state.clone_into(&mut self.lock().state);
    }

    /// The connections, by line; this node's own is never dialled.
    pub fn links(&self) -> Vec<Link> {
        self.lock().links.clone()
    }

    /// Sets the status of a connection.
    pub fn set_link(&self, index: usize, status: &'static str, address: Option<IpAddr>) {
        let mut shared = self.lock();
        if let Some(link) = shared.links.get_mut(index) {
            if link.status != status {
                link.changed = SystemTime::now();
            }
            link.status = status;
            link.address = address;
        }
    }

    /// Handles SIGUSR1: reads the certificates again and redials every node. Returns why reading failed, or `None`
    /// if the signal is ignored.
    pub fn redial(&self) -> Option<Result<(), String>> {
        let mut shared = self.lock();
        if shared
            .round_began
            .is_some_and(|at| at.elapsed() < ROUND_PAUSE)
        {
            return None;
        }
        let reloaded = self.transport.reload();
        shared.round_began = Some(Instant::now());
        shared.round += 1;
        drop(shared);
        self.changed.notify_all();
        Some(reloaded)
    }

    /// Ends the daemon.
    pub fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_all();
    }

    /// The current round.
    pub fn round(&self) -> u64 {
        self.lock().round
    }

    /// The next action for a dialler in `round`, without waiting.
    pub fn next_action(&self, round: u64) -> WakeReason {
        self.wait(round, Duration::ZERO)
    }

    /// Waits for the next action, at most `limit`.
    pub fn wait(&self, round: u64, limit: Duration) -> WakeReason {
        let idle = |shared: &mut Shared| !shared.ends && shared.round == round;
        let waited = self.changed.wait_timeout_while(self.lock(), limit, idle);
        let (shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (shared.ends, shared.round == round) {
            (true, _) => WakeReason::End,
            (false, false) => WakeReason::NewRound,
            (false, true) => WakeReason::Timeout,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
