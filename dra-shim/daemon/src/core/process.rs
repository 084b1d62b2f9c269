//! State of the `nvidia-imex` process.

use std::time::{Duration, Instant};

use crate::core::action::{Action, Plan};
use crate::core::facts::{Answer, Report, StartReason};
use crate::core::membership::{Peers, StartConfig};
use crate::core::names::has_new_addresses;

/// Minimum time between signals: `nvidia-imex` would ignore (and lose) a signal within 5 s of the last one.
pub(crate) const SIGNAL_PAUSE: Duration = Duration::from_secs(5);

/// Intervals of queries: while it starts, while it should be ready but is not, and while it is ready.
const QUERY_STARTING_EVERY: Duration = Duration::from_millis(100);
const QUERY_UNREADY_EVERY: Duration = Duration::from_secs(1);
const QUERY_READY_EVERY: Duration = Duration::from_secs(5);

/// How long it counts as starting.
const STARTING: Duration = Duration::from_secs(10);

/// This many timeouts in a row count as a hang. A single one may be caused by a busy machine.
const MAX_TIMEOUTS: u32 = 2;

#[derive(Debug)]
pub(crate) enum Process {
    /// There is no process; the next one may start at `until`.
    Down {
        until: Instant,
        /// Why there is no process.
        why: String,
        /// Whether the node's driver is too old.
        driver_too_old: bool,
    },
    Up(Up),
    /// It was sent SIGTERM, and is killed at `kill_at`.
    Ending {
        kill_at: Option<Instant>,
    },
}

/// A running process.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) run: u64,
    pub(crate) start_config: StartConfig,
    pub(crate) since: Instant,
    /// The addresses that it has resolved or was signalled to resolve.
    pub(super) known_peers: Peers,
    /// The certificates that it has read or was signalled to read.
    pub(super) certificates: u64,
    /// The last answer.
    pub(crate) answer: Option<Answer>,
    timeouts: u32,
    pub(super) is_query_pending: bool,
    pub(super) next_query: Instant,
}

// === impl Up ===

impl Up {
    pub(super) fn new(run: u64, plan: &Plan, certificates: u64, now: Instant) -> Self {
        Self {
            run,
            start_config: plan.start_config.clone(),
            since: now,
            known_peers: plan.peers.clone(),
            certificates,
            answer: None,
            timeouts: 0,
            is_query_pending: false,
            next_query: now + QUERY_STARTING_EVERY,
        }
    }

    /// When to send SIGUSR1, if necessary. Never before the first answer: the signal kills a process
    /// that has not installed its handler yet.
    // req: DAEMON-4, MODE-42
    pub(super) fn signal_due_at(
        &self,
        plan: &Plan,
        certificates: u64,
        last: Option<Instant>,
    ) -> Option<Instant> {
        let has_changed =
            has_new_addresses(&plan.peers, &self.known_peers) || certificates != self.certificates;
        if self.answer.is_none() || !has_changed {
            return None;
        }
        Some(last.map_or(self.since, |last| last + SIGNAL_PAUSE))
    }

    /// Why it must be restarted.
    pub(super) fn moved_to(&self, plan: Option<&Plan>) -> StartReason {
        match plan.map(|plan| &plan.start_config) {
            Some(start_config) if start_config.clique != self.start_config.clique => {
                StartReason::Clique
            }
            Some(start_config) if start_config.index != self.start_config.index => {
                StartReason::Index
            }
            Some(_) => StartReason::List,
            None => StartReason::Clique,
        }
    }

    // req: DAEMON-6
    pub(crate) fn answered(&mut self, answer: Answer, now: Instant) -> Vec<Action> {
        self.is_query_pending = false;
        let Answer::Unresponsive(limit) = answer else {
            self.timeouts = 0;
            self.next_query = now + self.pause_after(&answer, now);
            self.answer = Some(answer);
            return Vec::new();
        };
        self.timeouts += 1;
        self.next_query = now;
        if self.timeouts < MAX_TIMEOUTS {
            return Vec::new();
        }
        let elapsed = limit * self.timeouts;
        self.answer = Some(Answer::Unresponsive(elapsed));
        if self.timeouts > MAX_TIMEOUTS {
            return Vec::new();
        }
        vec![Action::Report(Report::Unresponsive(elapsed))]
    }

    fn pause_after(&self, answer: &Answer, now: Instant) -> Duration {
        if *answer == Answer::Ready {
            return QUERY_READY_EVERY;
        }
        if now.duration_since(self.since) < STARTING {
            QUERY_STARTING_EVERY
        } else {
            QUERY_UNREADY_EVERY
        }
    }
}
