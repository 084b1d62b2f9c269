//! Asks now and then whether the checkpoint could be changed: most nodes change no claim for hours, and
//! a lock that somebody keeps, or a disk that hangs, should be known before the next claim comes.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_node::{NodeClaims, WriterError};
use daemon_runtime::{Heartbeat, ReadinessCondition};
use dra_common::error_chain;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::shared_claims::SharedClaims;

/// Pause between two questions, which take the lock and write nothing.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// The same after a question that was not answered with yes.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Pause between two looks whether the checkpoint is open.
const OPEN_WITHIN: Duration = Duration::from_secs(2);

/// The task that asks.
pub(crate) struct WriterWatch {
    pub(crate) shared_claims: SharedClaims,
    /// Of the checkpoint's writer, a thread of its own that can be asked only.
    pub(crate) writer: Heartbeat,
    /// Whether the checkpoint could be changed when it was asked last: somebody may keep its
    /// lock, and no restart of this process helps.
    pub(crate) changeable: ReadinessCondition,
}

// === impl WriterWatch ===

impl WriterWatch {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.watch()).await;
    }

    async fn watch(&self) {
        self.writer.idle(); // until there is one
        self.changeable.set_met(); // there is another condition for the start
        loop {
            let pause = match self.shared_claims.get() {
                Ok(claims) => self.ask(claims).await,
                Err(_) => OPEN_WITHIN,
            };
            sleep(pause).await;
        }
    }

    /// Returns the pause until the next question.
    async fn ask(&self, claims: Arc<NodeClaims>) -> Duration {
        let answer = spawn_blocking(move || claims.probe_writable()).await;
        if matches!(answer, Ok(Ok(()) | Err(WriterError::Blocked(_)))) {
            self.writer.beat();
        }
        let reason = match answer {
            Ok(Ok(())) => {
                self.changeable.set_met();
                return ASK_EVERY;
            }
            Ok(Err(error)) => error_chain(&error),
            Err(join_error) => join_error.to_string(),
        };
        self.changeable.set_unmet(&reason);
        ASK_AGAIN_AFTER
    }
}
