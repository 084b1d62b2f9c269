//! Steps of the `nvidia-imex` process: start, signal, query and stop.

use std::time::{Duration, Instant};

use crate::core::Core;
use crate::core::action::{Action, Plan};
use crate::core::facts::Report;
use crate::core::process::{Process, Up};

/// How long it may take to notify its peers and exit.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(3);

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
            (Process::Up(up), Some(plan)) if up.start_config == plan.start_config => {
                if up
                    .signal_due_at(plan, self.certificates, self.last_signal)
                    .is_some_and(|at| at <= now)
                    && self.names.failure.is_none()
                {
                    up.known_peers.clone_from(&plan.peers);
                    up.certificates = self.certificates;
                    self.last_signal = Some(now);
                    actions.push(Action::Signal);
                }
                if !up.is_query_pending && up.next_query <= now {
                    up.is_query_pending = true;
                    actions.push(Action::QueryStatus { run: up.run });
                }
            }
            (Process::Up(up), plan) => {
                let reason = up.moved_to(plan.as_ref());
                self.next_reason = reason;
                self.process = Process::Ending {
                    kill_at: Some(now + TERMINATE_TIMEOUT),
                };
                actions.push(Action::Report(Report::Restarted(reason)));
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
            start_config: plan.start_config.clone(),
            reason: self.next_reason,
        });
        self.process = Process::Up(Up::new(self.runs, plan, self.certificates, now));
        self.last_start_config = Some(plan.start_config.clone());
    }

    /// When the process needs the next step; `None` while it waits for an event.
    pub(crate) fn process_wakes_at(&self) -> Option<Instant> {
        match (&self.process, &self.plan) {
            (Process::Down { until, .. }, Some(_)) if self.names.failure.is_none() => Some(*until),
            (Process::Down { .. }, _) => None,
            (Process::Up(up), plan) => {
                let ask = (!up.is_query_pending).then_some(up.next_query);
                let plan = plan.as_ref().filter(|_| self.names.failure.is_none());
                let signal = plan
                    .and_then(|plan| up.signal_due_at(plan, self.certificates, self.last_signal));
                [ask, signal].into_iter().flatten().min()
            }
            (Process::Ending { kill_at }, _) => *kill_at,
        }
    }
}
