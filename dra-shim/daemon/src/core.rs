//! Decides what to do, without I/O: facts go in, actions come out, and time is a parameter.
//!
//! ```text
//! fabric, membership ──> Core::decide ──> WriteNames, Start, Signal, Terminate, Kill, QueryStatus, Publish, Report
//! names_written, started, exited, answered ──┘                          (run in this order by `supervisor`)
//! ```
//!
//! The process goes through [`Process`]: down, up, ending. A running one is restarted only for a new `StartConfig`;
//! a peer's new address only causes a signal. When a fact becomes unknown (NVML hangs, the API server is unreachable,
//! the object is deleted), a running process is left alone: programs that import memory die with it.

pub(crate) mod action;
pub(crate) mod backoff;
pub(crate) mod facts;
pub(crate) mod membership;
pub(crate) mod names;
mod process;
mod state;
mod steps;

use std::time::{Duration, Instant};

use compute_domain_api::driver_managed::DaemonState;

use self::action::{Action, Plan};
use self::facts::{Answer, DRIVER_TOO_OLD, Exit, Fabric, Report, StartReason};
use self::membership::{Membership, NodeIdentity, StartConfig};
use self::process::Process;

/// How often files are checked and repaired: kubelet rewrites a pod's hosts file when it starts a container, and
/// the state file may be removed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long to wait after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// How long `nvidia-imex` keeps running unchanged after the clique's object has moved members to other indices. The
/// controller never moves a running member, and reverts such an edit. If the leader crashes, another controller takes
/// over after 15 s.
const SETTLE: Duration = Duration::from_secs(60);

/// The hosts file.
#[derive(Debug)]
struct Names {
    /// Its content, as far as known.
    written: Option<Plan>,
    /// Why its content is wrong.
    failure: Option<String>,
    next_check: Instant,
}

/// State of the daemon.
#[derive(Debug)]
pub(crate) struct Core {
    me: NodeIdentity,
    boot_id: String,
    fabric: Fabric,
    membership: Result<Membership, String>,
    /// The last valid membership.
    plan: Option<Plan>,
    /// A membership that moves members, and when it is applied unless the object changes again.
    held: Option<(Instant, Membership)>,
    names: Names,
    process: Process,
    /// The config of the current or the last process.
    last_start_config: Option<StartConfig>,
    /// Incremented when the certificates are renewed.
    certificates: u64,
    backoff: backoff::Backoff,
    last_signal: Option<Instant>,
    /// The reason of the next start.
    next_reason: StartReason,
    runs: u64,
    published: Option<(DaemonState, Option<String>)>,
    next_publish: Instant,
}

// === impl Core ===

impl Core {
    pub(crate) fn new(me: NodeIdentity, boot_id: String, now: Instant) -> Self {
        Self {
            me,
            boot_id,
            fabric: Fabric::Unknown("NVML has not been read yet".to_owned()),
            membership: Err("the clique is not known yet".to_owned()),
            plan: None,
            held: None,
            names: Names {
                written: None,
                failure: None,
                next_check: now,
            },
            process: Process::Down {
                until: now,
                why: "nvidia-imex has not been started yet".to_owned(),
                driver_too_old: false,
            },
            last_start_config: None,
            certificates: 0,
            backoff: backoff::Backoff::default(),
            last_signal: None,
            next_reason: StartReason::First,
            runs: 0,
            published: None,
            next_publish: now,
        }
    }

    /// Handles a reading of NVML. An unknown fabric does not affect membership or process.
    pub(crate) fn fabric(&mut self, fabric: Fabric) {
        match &fabric {
            Fabric::NoClique(_) => {
                self.membership = Err("this node is in no clique".to_owned());
                (self.plan, self.held) = (None, None);
            }
            Fabric::Clique(clique) if self.clique() != Some(clique) => {
                self.membership = Err(format!(
                    "ComputeDomainClique {clique} has not been read yet"
                ));
            }
            Fabric::Clique(_) | Fabric::Unknown(_) => {}
        }
        self.fabric = fabric;
    }

    /// The clique of this node, for the watch of its object; `None` if it has none.
    pub(crate) fn clique(&self) -> Option<&str> {
        match &self.fabric {
            Fabric::Clique(clique) => Some(clique),
            Fabric::Unknown(_) => self
                .plan
                .as_ref()
                .map(|plan| plan.start_config.clique.as_str()),
            Fabric::NoClique(_) => None,
        }
    }

    /// Whether this node definitely is in no clique.
    pub(crate) fn has_nothing_to_run(&self) -> bool {
        matches!(self.fabric, Fabric::NoClique(_))
    }

    /// Handles a change of the clique's object. Delays it if it moves members.
    // req: DAEMON-3
    pub(crate) fn membership(&mut self, membership: Result<Membership, String>, now: Instant) {
        let held = self.held.take();
        match membership {
            Ok(membership) if self.is_moved_by(&membership) => {
                let until = held.map_or(now + SETTLE, |(until, _)| until);
                self.held = Some((until, membership));
            }
            membership => self.take_membership(membership),
        }
    }

    /// Whether the membership moves members of the clique for which `nvidia-imex` runs.
    fn is_moved_by(&self, membership: &Membership) -> bool {
        let Some(plan) = &self.plan else { return false };
        let runs = matches!(&self.process, Process::Up(up) if up.start_config == plan.start_config);
        runs && plan.start_config.clique == membership.start_config.clique
            && plan.is_moved_by(membership)
    }

    fn take_held(&mut self, now: Instant) {
        let is_over = |until: Instant| until <= now || !matches!(self.process, Process::Up(_));
        if self.held.as_ref().is_some_and(|(until, _)| is_over(*until))
            && let Some((_, membership)) = self.held.take()
        {
            self.take_membership(Ok(membership));
        }
    }

    fn take_membership(&mut self, membership: Result<Membership, String>) {
        if let Ok(Membership {
            start_config,
            peers,
            ..
        }) = &membership
        {
            self.plan = Some(Plan {
                start_config: start_config.clone(),
                peers: peers.clone(),
            });
        }
        self.membership = membership;
    }

    /// Handles the result of a check or write of the hosts file: whether the own name has the own address in it.
    pub(crate) fn names_written(&mut self, result: Result<(), String>, now: Instant) {
        let is_new = result.is_err() && self.names.failure.is_none();
        self.names.failure = result.err();
        self.names.next_check = now + if is_new { RETRY } else { CHECK_INTERVAL };
        self.names.written.clone_from(&self.plan);
    }

    /// Handles renewed certificates. `nvidia-imex` reads them when it is signalled.
    // req: MODE-42
    pub(crate) fn certificates_renewed(&mut self) {
        self.certificates += 1;
    }

    /// Handles a failed write of the state: schedules another one.
    pub(crate) fn publish_failed(&mut self, now: Instant) {
        self.published = None;
        self.next_publish = now + RETRY;
    }

    /// Handles an exit or a failed start of `nvidia-imex`. Returns the report.
    pub(crate) fn exited(&mut self, exit: &Exit, now: Instant) -> Vec<Action> {
        let Process::Up(up) = &self.process else {
            self.process = Process::Down {
                until: now,
                why: "nvidia-imex is restarting".to_owned(),
                driver_too_old: false,
            };
            return Vec::new();
        };
        self.next_reason = StartReason::Exited;
        let pause = if exit.in_use {
            backoff::IN_USE
        } else {
            self.backoff.after(now.duration_since(up.since))
        };
        self.process = Process::Down {
            until: now + pause,
            why: exit.sentence(),
            driver_too_old: exit.class == DRIVER_TOO_OLD,
        };
        // It may have exited because the GPUs left their clique.
        vec![
            Action::ReadFabric,
            Action::Report(Report::Ended(exit.clone())),
        ]
    }

    /// Handles an answer or a timeout of `nvidia-imex-ctl`. Ignores an answer about an earlier process.
    pub(crate) fn answered(&mut self, run: u64, answer: Answer, now: Instant) -> Vec<Action> {
        match &mut self.process {
            Process::Up(up) if up.run == run => up.answered(answer, now),
            _ => Vec::new(),
        }
    }

    /// Returns the actions to perform now. Call it again after performing them, until there are none.
    pub(crate) fn decide(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        self.take_held(now);
        self.write_names(now, &mut actions);
        // The other actions depend on its result.
        if actions.is_empty() {
            self.run_process(now, &mut actions);
        }
        self.publish(now, &mut actions);
        actions
    }

    /// When [`decide`](Self::decide) must be called next, even without new facts.
    pub(crate) fn wake_at(&self) -> Instant {
        let process = self.process_wakes_at();
        let publish = self.next_publish;
        let names = self.plan.as_ref().map(|_| self.names.next_check);
        let held = self.held.as_ref().map(|(until, _)| *until);
        [process, names, held]
            .into_iter()
            .flatten()
            .fold(publish, Instant::min)
    }

    fn write_names(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let Some(plan) = &self.plan else { return };
        let is_new = self.names.written.as_ref() != Some(plan);
        if !is_new && now < self.names.next_check {
            return;
        }
        // `names_written` reports the result. Without it, the next check repeats the action.
        self.names.next_check = now + CHECK_INTERVAL;
        actions.push(Action::WriteNames {
            addresses: names::addresses(&plan.start_config, &plan.peers, self.me.address),
            own_name: plan.start_config.own_name(),
        });
    }

    fn publish(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let (state, unready) = self.state();
        let is_same = self
            .published
            .as_ref()
            .is_some_and(|(last, reason)| *last == state && *reason == unready);
        if is_same && now < self.next_publish {
            return;
        }
        self.next_publish = now + CHECK_INTERVAL;
        self.published = Some((state.clone(), unready.clone()));
        actions.push(Action::Publish { state, unready });
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
