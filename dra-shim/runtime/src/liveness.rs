//! The liveness of a program: whether its long-lived tasks still run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The long-lived tasks of a program. Cheap to clone; clones share the tasks. A program without tasks
/// is alive.
///
/// [`HttpServer::serve`](crate::HttpServer::serve) serves them as `/livez`, so that kubelet restarts the
/// container if a task has died or hangs. For problems that a restart does not fix, use
/// [`Readiness`](crate::Readiness).
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<BTreeMap<&'static str, Arc<Task>>>>);

/// A task's heartbeat. The task owns it; if it is dropped, the task has died.
#[derive(Debug)]
pub struct Heartbeat(Arc<Task>);

#[derive(Debug)]
struct Task {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
enum State {
    /// The time of the last heartbeat; the next one is due within the limit.
    Beating(Instant),
    /// The task waits for work, for any time.
    Idle,
    /// Why the task needs a restart. Final.
    Failed(String),
    Died,
}

// === impl Liveness ===

impl Liveness {
    /// Adds a task that must send a heartbeat at least every `limit`, starting now. Choose a limit well above
    /// the task's longest wait: a restart must be better than waiting.
    ///
    /// Replaces a task with the same name; the old heartbeat loses its effect.
    pub fn add(&self, name: &'static str, limit: Duration) -> Heartbeat {
        let state = Mutex::new(State::Beating(Instant::now()));
        let task = Arc::new(Task { limit, state });
        lock(&self.0).insert(name, Arc::clone(&task));
        Heartbeat(task)
    }

    /// Returns name and reason of every task that has died, hangs or needs a restart; empty if the program is
    /// alive.
    pub fn failures(&self) -> Vec<(&'static str, String)> {
        self.failures_at(Instant::now())
    }

    fn failures_at(&self, now: Instant) -> Vec<(&'static str, String)> {
        let tasks = lock(&self.0);
        let failed = tasks
            .iter()
            .filter_map(|(name, task)| Some((*name, task.failure_at(now)?)));
        failed.collect()
    }
}

// === impl Task ===

impl Task {
    fn failure_at(&self, now: Instant) -> Option<String> {
        match &*lock(&self.state) {
            State::Idle => None,
            State::Failed(reason) => Some(reason.clone()),
            State::Died => Some("the task has ended".to_owned()),
            State::Beating(last) => {
                let unresponsive = now.saturating_duration_since(*last);
                (unresponsive > self.limit).then(|| {
                    format!(
                        "no heartbeat for {} s, more than the limit of {} s",
                        unresponsive.as_secs(),
                        self.limit.as_secs()
                    )
                })
            }
        }
    }

    fn set(&self, state: State) {
        let mut current = lock(&self.state);
        if !matches!(*current, State::Failed(_)) {
            *current = state;
        }
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    /// Sends a heartbeat: the next one is due within the limit.
    pub fn beat(&self) {
        self.0.set(State::Beating(Instant::now()));
    }

    /// Reports a problem that only a restart of the process or its container fixes. This is final: the first
    /// reason stays, even if the task continues or ends.
    pub fn fail(&self, reason: String) {
        self.0.set(State::Failed(reason));
    }

    /// Marks the task as waiting for work: no heartbeat is due until the next [`beat`](Self::beat).
    pub fn idle(&self) {
        self.0.set(State::Idle);
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.set(State::Died);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under the locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn failed(liveness: &Liveness, after: Duration) -> Vec<&'static str> {
        let failures = liveness.failures_at(Instant::now() + after);
        failures.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_task_without_a_heartbeat_within_its_limit_has_failed_until_it_beats() {
        let liveness = Liveness::default();
        let worker = liveness.add("worker", LIMIT);
        assert!(failed(&liveness, LIMIT / 2).is_empty());
        assert_eq!(failed(&liveness, 2 * LIMIT), ["worker"]);
        worker.idle();
        assert!(failed(&liveness, 2 * LIMIT).is_empty());
        worker.beat();
        assert_eq!(failed(&liveness, 2 * LIMIT), ["worker"]);
        assert!(liveness.failures().is_empty());
    }

    #[test]
    fn a_request_for_a_restart_is_final() {
        let liveness = Liveness::default();
        let mounts = liveness.add("mounts", LIMIT);
        mounts.fail("removed".to_owned());
        mounts.beat();
        mounts.fail("something else".to_owned());
        let failures = [("mounts", "removed".to_owned())];
        assert_eq!(liveness.failures(), failures);
        drop(mounts);
        assert_eq!(liveness.failures(), failures);
    }

    #[test]
    fn a_replaced_task_is_ignored() {
        let liveness = Liveness::default();
        let mut worker = liveness.add("worker", LIMIT);
        let old = std::mem::replace(&mut worker, liveness.add("worker", LIMIT));
        old.fail("broken".to_owned());
        drop(old);
        assert_eq!(liveness.failures(), []);
        drop(worker);
        assert_eq!(failed(&liveness, LIMIT), ["worker"]);
    }

    #[tokio::test]
    async fn a_task_that_panics_or_ends_has_died() {
        let liveness = Liveness::default();
        let (panics, ends, lives) = (
            liveness.add("panics", LIMIT),
            liveness.add("ends", LIMIT),
            liveness.add("lives", LIMIT),
        );
        let panicked = tokio::spawn(async move {
            panics.beat();
            panic!("a bug");
        });
        assert!(panicked.await.is_err());
        tokio::spawn(async move { ends.idle() }).await.unwrap();
        let reason = "the task has ended".to_owned();
        assert_eq!(
            liveness.failures(),
            [("ends", reason.clone()), ("panics", reason)]
        );
        drop(lives);
    }
}
