//! Makes Prepare wait for `nvidia-imex`: of the host, if `imex.hostSocketPath` is set, or of the IMEX
//! daemon that the driver runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dra_common::{error_chain, with_hint};
use dra_kubelet::ClaimError;
use nvml_clique::{HostImex, HostImexError};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time limit of `nvidia-imex-ctl`, which answers in milliseconds.
const LIMIT: Duration = Duration::from_secs(5);

/// Lets claims pass while `nvidia-imex` is ready. Claims that wait at the same time share
/// one check. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct HostImexGate(Option<Arc<Gate>>);

struct Gate {
    check: Box<dyn Fn(Duration) -> Answer + Send + Sync>,
    /// The running check, or the last one.
    latest: Mutex<Option<watch::Receiver<Option<Answer>>>>,
}

type Answer = Result<(), ClaimError>;

// === impl HostImexGate ===

impl HostImexGate {
    /// A gate for the host's `nvidia-imex`. `None`: every claim passes, without a check.
    // req: NODE-14
    pub(crate) fn new(host_imex: Option<HostImex>) -> Self {
        host_imex.map_or_else(Self::default, |imex| {
            Self::with_imex(imex, HostImexError::hint)
        })
    }

    /// A gate for the `nvidia-imex` that the driver runs on this node.
    // req: MODE-17
    pub(crate) fn of_daemon(imex: HostImex) -> Self {
        Self::with_imex(imex, |_| "see the log of the imex-daemon pod of this node")
    }

    fn with_imex(imex: HostImex, hint: fn(&HostImexError) -> &'static str) -> Self {
        Self::with_check(move |limit| {
            imex.check_ready(limit).map_err(|error| {
                let message = with_hint(&error_chain(&error), hint(&error));
                ClaimError::retry(message).with_code(error.code())
            })
        })
    }

    /// Whether claims wait for `nvidia-imex` at all.
    pub(crate) const fn is_configured(&self) -> bool {
        self.0.is_some()
    }

    fn with_check(check: impl Fn(Duration) -> Answer + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Gate {
            check: Box::new(check),
            latest: Mutex::new(None),
        })))
    }

    /// Checks `nvidia-imex`, outside any lock, or waits for the running check; at most
    /// for `limit`.
    ///
    /// # Errors
    /// `nvidia-imex` is not ready or did not answer in time. A retry may succeed.
    // req: NODE-13
    pub(crate) async fn require_ready(&self, limit: Duration) -> Answer {
        let Some(gate) = &self.0 else {
            return Ok(());
        };
        let mut answer = gate.join();
        let answered = timeout(limit, answer.wait_for(Option::is_some)).await;
        let unanswered = |code| {
            let message = "the check of nvidia-imex did not finish in time";
            ClaimError::retry(message).with_code(code)
        };
        match answered {
            Ok(Ok(answer)) => answer.clone().unwrap_or(Ok(())),
            Ok(Err(_)) => Err(unanswered("panic")),
            Err(_) => Err(unanswered("imex-timeout")),
        }
    }
}

// === impl Gate ===

impl Gate {
    /// The result of the running check, or of a new one.
    fn join(self: &Arc<Self>) -> watch::Receiver<Option<Answer>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // A check that panicked has dropped its sender.
        let is_running = |check: &watch::Receiver<Option<Answer>>| {
            check.borrow().is_none() && check.has_changed().is_ok()
        };
        if let Some(running) = latest.as_ref().filter(|check| is_running(check)) {
            return running.clone();
        }
        let (sender, answer) = watch::channel(None);
        let gate = Arc::clone(self);
        spawn_blocking(move || sender.send_replace(Some((gate.check)(LIMIT))));
        *latest = Some(answer.clone());
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    // req: NODE-13
    #[tokio::test]
    async fn claims_that_wait_together_share_one_check_and_later_ones_do_not() {
        let checks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&checks);
        let (answer, answers) = mpsc::channel();
        let answers = Mutex::new(answers);
        let gate = HostImexGate::with_check(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            answers.lock().unwrap().recv_timeout(PATIENCE).unwrap()
        });
        for (round, expected) in [Ok(()), Err(ClaimError::retry("starting"))]
            .into_iter()
            .enumerate()
        {
            let mut waiting = Vec::new();
            for _ in 0..16 {
                let gate = gate.clone();
                let mut waits = Box::pin(async move { gate.require_ready(PATIENCE).await });
                // Poll each once: all wait before the check may answer.
                let polled = tokio::time::timeout(Duration::ZERO, waits.as_mut()).await;
                assert!(polled.is_err());
                waiting.push(waits);
            }
            answer.send(expected.clone()).unwrap();
            for waits in waiting {
                assert_eq!(waits.await, expected);
            }
            assert_eq!(checks.load(Ordering::SeqCst), round + 1);
        }
    }

    #[tokio::test]
    async fn without_a_socket_claims_pass_unchecked() {
        let gate = HostImexGate::new(None);
        assert_eq!(gate.require_ready(Duration::ZERO).await, Ok(()));
    }
}
