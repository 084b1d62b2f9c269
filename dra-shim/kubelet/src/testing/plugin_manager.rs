//! kubelet's plugin manager: periodically compares existing sockets with registered plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::event::Event;
use super::options::{BackOff, Times};
use super::plugins::Registered;
use super::process::Process;
use super::registration;
use super::watcher::{Change, Watcher};

/// Runs the plugin manager until it is dropped.
pub(super) async fn run(process: Arc<Process>, mut watcher: Watcher, found: Vec<Change>) {
    let times = &process.node.options.times;
    let mut manager = Manager::new(times.clone());
    manager.apply(found);
    let mut operations = JoinSet::new();
    let mut tick = tokio::time::interval(times.registration_loop);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(Ok((socket, id, outcome))) = operations.join_next() => {
                manager.settle(&process, socket, id, outcome);
                continue;
            }
            _ = tick.tick() => {}
        }
        match watcher.changes() {
            Ok(changes) => manager.apply(changes),
            Err(error) => tracing::error!(%error, "cannot watch the registry directory"),
        }
        for step in manager.steps(Instant::now()) {
            match step {
                Step::Unregister(plugin) => process.unregister(&plugin),
                Step::Register(socket, id) => {
                    let process = Arc::clone(&process);
                    operations.spawn(async move {
                        let outcome = registration::register(&process, &socket).await;
                        (socket, id, outcome)
                    });
                }
            }
        }
    }
}

/// Identifies a socket file. A file that is created again under its old name has a new id.
type Id = u64;

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Unregister(Registered),
    Register(PathBuf, Id),
}

/// The state of the manager, by socket path.
struct Manager {
    times: Times,
    next_id: Id,
    desired: BTreeMap<PathBuf, Id>,
    registered: BTreeMap<PathBuf, (Id, Registered)>,
    /// Registrations in flight.
    running: BTreeSet<PathBuf>,
    /// Failed registrations, with the time of the next attempt.
    waiting: BTreeMap<PathBuf, (BackOff, Instant)>,
}

// === impl Manager ===

impl Manager {
    const fn new(times: Times) -> Self {
        Self {
            times,
            next_id: 0,
            desired: BTreeMap::new(),
            registered: BTreeMap::new(),
            running: BTreeSet::new(),
            waiting: BTreeMap::new(),
        }
    }

    fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Created(socket) => {
                    self.desired.insert(socket, self.next_id);
                    self.next_id += 1;
                }
                Change::Removed(socket) => {
                    self.desired.remove(&socket);
                }
            }
        }
    }

    /// Returns the steps of one pass. Fact: a socket that was created again is unregistered in
    /// one pass and registered in the next, a second later.
    fn steps(&mut self, now: Instant) -> Vec<Step> {
        let gone = |socket: &PathBuf, id: Id| self.desired.get(socket) != Some(&id);
        let (removed, kept) = std::mem::take(&mut self.registered)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(socket, (id, _))| gone(socket, *id));
        self.registered = kept;
        let mut steps = Vec::new();
        for (socket, id) in &self.desired {
            let may_begin = self.waiting.get(socket).is_none_or(|(_, at)| *at <= now);
            let idle = !self.registered.contains_key(socket)
                && !removed.contains_key(socket)
                && !self.running.contains(socket);
            if idle && may_begin {
                self.running.insert(socket.clone());
                steps.push(Step::Register(socket.clone(), *id));
            }
        }
        let removed = removed.into_iter().map(|(_, (_, it))| Step::Unregister(it));
        removed.chain(steps).collect()
    }

    fn settle(
        &mut self,
        process: &Process,
        socket: PathBuf,
        id: Id,
        outcome: Result<Registered, String>,
    ) {
        self.running.remove(&socket);
        match outcome {
            Ok(plugin) => {
                self.waiting.remove(&socket);
                process.registered(&plugin);
                self.registered.insert(socket, (id, plugin));
            }
            Err(reason) => {
                self.fail(socket.clone(), Instant::now());
                let failed = Event::RegistrationFailed { socket, reason };
                process.node.log.push(failed);
            }
        }
    }

    fn fail(&mut self, socket: PathBuf, now: Instant) {
        let fresh = || {
            let back_off = BackOff::doubling(self.times.back_off, self.times.max_back_off);
            (back_off, now)
        };
        let (back_off, at) = self.waiting.entry(socket).or_insert_with(fresh);
        *at = now + back_off.next();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn mk_manager() -> (Manager, PathBuf) {
        let mut manager = Manager::new(Times::KUBELET);
        let socket = PathBuf::from("/r/d@reg.sock");
        manager.apply(vec![Change::Created(socket.clone())]);
        (manager, socket)
    }

    fn mk_registered() -> Registered {
        Registered {
            driver: "d".into(),
            endpoint: "/p/d.sock".into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn registrations_are_retried_at_the_same_times_as_by_kubelet() {
        let (mut manager, socket) = mk_manager();
        let began = Instant::now();
        let mut attempts = Vec::new();
        for second in 0..=18 {
            let now = began + Duration::from_secs(second);
            if !manager.steps(now).is_empty() {
                attempts.push(second);
                manager.running.remove(&socket);
                // The handshake takes some time.
                manager.fail(socket.clone(), now + Duration::from_millis(1));
            }
        }
        // Observed with a real kubelet: +1, +3, +6, +10 (here +11), +18 s.
        assert_eq!(attempts, [0, 1, 3, 6, 11]);
    }

    #[tokio::test]
    async fn a_recreated_socket_is_unregistered_first_and_registered_a_pass_later() {
        let (mut manager, socket) = mk_manager();
        let now = Instant::now();
        assert_eq!(manager.steps(now), [Step::Register(socket.clone(), 0)]);
        manager.running.clear();
        manager
            .registered
            .insert(socket.clone(), (0, mk_registered()));
        assert_eq!(manager.steps(now), []);

        manager.apply(vec![
            Change::Removed(socket.clone()),
            Change::Created(socket.clone()),
        ]);
        assert_eq!(manager.steps(now), [Step::Unregister(mk_registered())]);
        assert_eq!(manager.steps(now), [Step::Register(socket, 1)]);
    }
}
