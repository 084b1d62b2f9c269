//! Queries the state of `nvidia-imex`.

use std::time::Duration;

use dra_common::error_chain;
use nvml_clique::{DriverRoot, HostImex, HostImexError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::spawn_blocking;

use crate::core::facts::Answer;
use crate::files::Files;

/// An answer, and the queried run of `nvidia-imex`.
pub(crate) type Answered = (u64, Answer);

/// Queries through `nvidia-imex-ctl`, one at a time.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    imex: HostImex,
    limit: Duration,
    answers: UnboundedSender<Answered>,
}

// === impl Query ===

impl Query {
    pub(crate) fn new(
        root: &DriverRoot,
        files: &Files,
        limit: Duration,
        answers: UnboundedSender<Answered>,
    ) -> Self {
        Self {
            imex: HostImex::outside(root.clone(), files.socket()),
            limit,
            answers,
        }
    }

    /// Queries in the background. There is always an answer, after `limit` at the latest.
    pub(crate) fn ask(&self, run: u64) {
        let query = self.clone();
        spawn_blocking(move || {
            let answer = answer(query.imex.check_ready(query.limit), query.limit);
            // The daemon may be shutting down.
            let _ = query.answers.send((run, answer));
        });
    }
}

fn answer(result: Result<(), HostImexError>, limit: Duration) -> Answer {
    match result {
        Ok(()) => Answer::Ready,
        Err(HostImexError::TimedOut { .. }) => Answer::Unresponsive(limit),
        Err(HostImexError::NotReady { stdout, .. }) => {
            Answer::NotReady(format!("nvidia-imex is not READY; its state is {stdout:?}"))
        }
        Err(error) => Answer::NotReady(error_chain(&error)),
    }
}
