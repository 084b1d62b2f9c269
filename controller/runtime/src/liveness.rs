//! Whether the long-lived tasks of a program still work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The long-lived tasks of a program. Cheap to clone; clones share the tasks. A program without tasks
/// is alive.
///
/// [`HttpServer::serve`](crate::HttpServer::serve) shows them as `/livez`, so that kubelet restarts a
/// container one of whose tasks has died or hangs. What a restart does not heal is no matter of
/// liveness: see [`Readiness`](crate::Readiness).
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<BTreeMap<&'static str, Task>>>);

/// A task's sign of life. The task owns it: when it is dropped, the task has died.
#[derive(Debug)]
pub struct Heartbeat {
    name: &'static str,
    liveness: Liveness,
}

#[derive(Debug)]
struct Task {
    limit: Duration,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// The next sign is due `limit` after this one.
    Beating(Instant),
    /// It waits for work, however long.
    Idle,
    /// Why it needs a restart.
    Failed(String),
    Died,
}

// === impl Liveness ===

impl Liveness {
    /// Adds a task, which gives a sign of life now and then at least every `limit`. Choose it well
    /// above what the task may wait for: a restart must be better than waiting.
    ///
    /// A task of that name is replaced, and its heartbeat must not be used any more.
    pub fn add(&self, name: &'static str, limit: Duration) -> Heartbeat {
        let state = State::Beating(Instant::now());
        self.lock().insert(name, Task { limit, state });
        Heartbeat {
            name,
            liveness: self.clone(),
        }
    }

    /// Name and reason of every task that has died or hangs; empty if the program is alive.
    pub fn failures(&self) -> Vec<(&'static str, String)> {
        self.failures_at(Instant::now())
    }

    fn failures_at(&self, now: Instant) -> Vec<(&'static str, String)> {
        let tasks = self.lock();
        let failed = tasks.iter().filter_map(|(name, task)| {
            let reason = match &task.state {
                State::Died => "the task has ended".to_owned(),
                State::Idle => return None,
                State::Failed(reason) => reason.clone(),
                State::Beating(last) => {
                    let silent = now.saturating_duration_since(*last);
                    if silent <= task.limit {
                        return None;
                    }
                    format!(
                        "the task has given no sign of life for {} s",
                        silent.as_secs()
                    )
                }
            };
            Some((*name, reason))
        });
        failed.collect()
    }

    /// A task that ends after it has said why keeps its reason.
    fn end(&self, name: &str) {
        if let Some(task) = self.lock().get_mut(name)
            && !matches!(task.state, State::Failed(_))
        {
            task.state = State::Died;
        }
    }

    fn set(&self, name: &str, state: State) {
        if let Some(task) = self.lock().get_mut(name) {
            task.state = state;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Task>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    /// A sign of life: the next one is due within the limit.
    pub fn beat(&self) {
        self.liveness.set(self.name, State::Beating(Instant::now()));
    }

    /// The task has found something that only a restart of the process or its container heals.
    pub fn fail(&self, reason: String) {
        self.liveness.set(self.name, State::Failed(reason));
    }

    /// The task waits for work: no sign is due until the next [`beat`](Self::beat).
    pub fn idle(&self) {
        self.liveness.set(self.name, State::Idle);
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.liveness.end(self.name);
    }
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
    fn a_task_that_is_silent_for_longer_than_its_limit_has_failed_until_it_beats() {
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
    fn a_task_that_asks_for_a_restart_keeps_its_reason_when_it_ends() {
        let liveness = Liveness::default();
        let mounts = liveness.add("mounts", LIMIT);
        mounts.fail("removed".to_owned());
        let failures = [("mounts", "removed".to_owned())];
        assert_eq!(liveness.failures(), failures);
        drop(mounts);
        assert_eq!(liveness.failures(), failures);
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
