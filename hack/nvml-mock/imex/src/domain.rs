//! What a daemon knows of its domain, shared by its threads.

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
    /// How they connect.
    pub transport: Transport,
    shared: Mutex<Shared>,
    changed: Condvar,
}

/// A daemon's connection to another.
#[derive(Debug, Clone)]
pub struct Link {
    /// `NEVER_CONNECTED`, `CONNECTED`, `RECOVERING` or `INVALID`.
    pub status: &'static str,
    /// The address that was dialled last.
    pub address: Option<IpAddr>,
    /// When the status became so.
    pub changed: SystemTime,
}

#[derive(Debug)]
struct Shared {
    state: String,
    links: Vec<Link>,
    /// Grows with each request to dial anew.
    round: u64,
    round_began: Option<Instant>,
    ends: bool,
}

/// What a dialler waits for in vain, or not.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Woken {
    /// The time is over.
    Timeout,
    /// Everything is to be dialled anew.
    NewRound,
    /// The daemon ends.
    End,
}

/// A request to dial anew within this time of the last one is ignored.
const ROUND_PAUSE: Duration = Duration::from_secs(5);

impl Domain {
    /// A daemon that has just found its line.
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

    /// Another state.
    pub fn set_state(&self, state: &str) {
        state.clone_into(&mut self.lock().state);
    }

    /// The connections, by line; this node's own is never dialled.
    pub fn links(&self) -> Vec<Link> {
        self.lock().links.clone()
    }

    /// A connection has become so.
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

    /// SIGUSR1: every node is to be dialled anew, with certificates that are read again, and why that failed.
    /// `None` if it is ignored.
    pub fn dial_anew(&self) -> Option<Result<(), String>> {
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

    /// The daemon ends.
    pub fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_all();
    }

    /// The round that is under way.
    pub fn round(&self) -> u64 {
        self.lock().round
    }

    /// What there is to do for whoever works in `round`, without waiting.
    pub fn look(&self, round: u64) -> Woken {
        self.wait(round, Duration::ZERO)
    }

    /// Waits until there is.
    pub fn wait(&self, round: u64, limit: Duration) -> Woken {
        let idle = |shared: &mut Shared| !shared.ends && shared.round == round;
        let waited = self.changed.wait_timeout_while(self.lock(), limit, idle);
        let (shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (shared.ends, shared.round == round) {
            (true, _) => Woken::End,
            (false, false) => Woken::NewRound,
            (false, true) => Woken::Timeout,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
