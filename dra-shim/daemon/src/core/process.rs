//! The one process: when it is started, signalled, asked and ended.

use std::time::{Duration, Instant};

use crate::core::facts::{Answer, Report, StartReason};
use crate::core::membership::{Peers, Seat};
use crate::core::names::has_news;
use crate::core::{Action, Core, Plan};

/// `nvidia-imex` ignores a signal within 5 s of the last one, and nothing sends it again.
pub(crate) const SIGNAL_PAUSE: Duration = Duration::from_secs(5);

/// How long it may take to tell its peers that it ends.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it is asked while it starts, while it should be ready and is not, and while it is ready.
const ASK_STARTING: Duration = Duration::from_millis(100);
const ASK_UNREADY: Duration = Duration::from_secs(1);
const ASK_READY: Duration = Duration::from_secs(5);

/// How long it is starting.
const STARTING: Duration = Duration::from_secs(10);

/// This many answers in a row that do not come are a hang; one may be a machine that is busy.
const SILENCES: u32 = 2;

#[derive(Debug)]
pub(crate) enum Process {
    /// There is none; the next may start then.
    Down {
        until: Instant,
        /// Why there is none.
        why: String,
    },
    Up(Up),
    /// It was told to end, and is killed then.
    Ending {
        kill_at: Option<Instant>,
    },
}

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) run: u64,
    pub(crate) seat: Seat,
    pub(crate) since: Instant,
    /// The addresses that it has looked up, or was told to look up.
    told: Peers,
    /// The last answer.
    pub(crate) answer: Option<Answer>,
    silences: u32,
    is_asked: bool,
    next_ask: Instant,
}

// === impl Core ===

impl Core {
    pub(crate) fn run_process(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match (&mut self.process, &self.plan) {
            (Process::Down { until, .. }, Some(plan)) => {
                if *until <= now && self.names.failure.is_none() {
                    let plan = plan.clone();
                    self.start(&plan, now, actions);
                }
            }
            (Process::Down { .. }, None) => {}
            (Process::Up(up), Some(plan)) if up.seat == plan.seat => {
                if up
                    .signal_due_at(plan, self.last_signal)
                    .is_some_and(|at| at <= now)
                    && self.names.failure.is_none()
                {
                    up.told.clone_from(&plan.peers);
                    self.last_signal = Some(now);
                    actions.push(Action::Signal);
                }
                if !up.is_asked && up.next_ask <= now {
                    up.is_asked = true;
                    actions.push(Action::Ask { run: up.run });
                }
            }
            (Process::Up(up), plan) => {
                let reason = up.moved_to(plan.as_ref());
                self.next_reason = reason;
                self.process = Process::Ending {
                    kill_at: Some(now + PATIENCE),
                };
                actions.push(Action::Report(Report::Moved(reason)));
                actions.push(Action::Terminate);
            }
            (Process::Ending { kill_at }, _) => {
                if kill_at.take_if(|at| *at <= now).is_some() {
                    actions.push(Action::Kill);
                }
            }
        }
    }

    fn start(&mut self, plan: &Plan, now: Instant, actions: &mut Vec<Action>) {
        self.runs += 1;
        actions.push(Action::Start {
            seat: plan.seat.clone(),
            reason: self.next_reason,
        });
        self.process = Process::Up(Up {
            run: self.runs,
            seat: plan.seat.clone(),
            since: now,
            told: plan.peers.clone(),
            answer: None,
            silences: 0,
            is_asked: false,
            next_ask: now + ASK_STARTING,
        });
    }

    /// `None` while it waits for an event.
    pub(crate) fn process_wakes_at(&self) -> Option<Instant> {
        match (&self.process, &self.plan) {
            (Process::Down { until, .. }, Some(_)) if self.names.failure.is_none() => Some(*until),
            (Process::Down { .. }, _) => None,
            (Process::Up(up), plan) => {
                let ask = (!up.is_asked).then_some(up.next_ask);
                let plan = plan.as_ref().filter(|_| self.names.failure.is_none());
                let signal = plan.and_then(|plan| up.signal_due_at(plan, self.last_signal));
                [ask, signal].into_iter().flatten().min()
            }
            (Process::Ending { kill_at }, _) => *kill_at,
        }
    }
}

// === impl Up ===

impl Up {
    /// When SIGUSR1 is to be sent, if it is. Never before the first answer: a process that has not
    /// installed its handler is killed by it.
    // req: DM-4
    fn signal_due_at(&self, plan: &Plan, last: Option<Instant>) -> Option<Instant> {
        if self.answer.is_none() || !has_news(&plan.peers, &self.told) {
            return None;
        }
        Some(last.map_or(self.since, |last| last + SIGNAL_PAUSE))
    }

    /// Why it cannot go on as it is.
    fn moved_to(&self, plan: Option<&Plan>) -> StartReason {
        match plan.map(|plan| &plan.seat) {
            Some(seat) if seat.clique != self.seat.clique => StartReason::Clique,
            Some(seat) if seat.index != self.seat.index => StartReason::Index,
            Some(_) => StartReason::List,
            None => StartReason::Clique,
        }
    }

    // req: DM-6
    pub(crate) fn answered(&mut self, answer: Answer, now: Instant) -> Vec<Action> {
        self.is_asked = false;
        let Answer::Silent(limit) = answer else {
            self.silences = 0;
            self.next_ask = now + self.pause_after(&answer, now);
            self.answer = Some(answer);
            return Vec::new();
        };
        self.silences += 1;
        self.next_ask = now;
        if self.silences < SILENCES {
            return Vec::new();
        }
        let so_long = limit * self.silences;
        self.answer = Some(Answer::Silent(so_long));
        if self.silences > SILENCES {
            return Vec::new();
        }
        vec![Action::Report(Report::Silent(so_long))]
    }

    fn pause_after(&self, answer: &Answer, now: Instant) -> Duration {
        if *answer == Answer::Ready {
            return ASK_READY;
        }
        if now.duration_since(self.since) < STARTING {
            ASK_STARTING
        } else {
            ASK_UNREADY
        }
    }
}
