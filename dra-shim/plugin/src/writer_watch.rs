//! Regularly checks that the checkpoint is writable. Most nodes change no claim for hours, and a lock
//! held by another process, or a hanging disk, should be reported before the next claim.

use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::{Heartbeat, ReadinessCondition};
use dra_common::error_chain;
use node_claims::{Devices, NodeClaims, WriterError};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::shared_claims::SharedClaims;

/// Pause between two checks, which take the lock and write nothing.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a failed check.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Pause between two checks that the checkpoint is open.
const OPEN_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The task that checks the writer.
pub(crate) struct WriterWatch<D: Devices> {
    pub(crate) shared_claims: SharedClaims<D>,
    /// Heartbeat of the checkpoint's writer, a separate thread that has none itself.
    pub(crate) writer: Heartbeat,
    /// Met if the last check succeeded. A condition, not liveness: if another process holds the
    /// lock, a restart of this one does not help.
    pub(crate) changeable: ReadinessCondition,
}

// === impl WriterWatch ===

impl<D: Devices> WriterWatch<D> {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.watch()).await;
    }

    async fn watch(&self) {
        self.writer.idle(); // until the checkpoint is open
        self.changeable.set_met(); // the condition `checkpoint` covers the start
        loop {
            let pause = match self.shared_claims.get() {
                Ok(claims) => self.check_writer(claims).await,
                Err(_) => OPEN_CHECK_INTERVAL,
            };
            sleep(pause).await;
        }
    }

    /// Checks the writer, and returns the pause until the next check.
    async fn check_writer(&self, claims: Arc<NodeClaims<D>>) -> Duration {
        let answer = spawn_blocking(move || claims.probe_writable()).await;
        if matches!(answer, Ok(Ok(()) | Err(WriterError::Blocked(_)))) {
            self.writer.beat();
        }
        let reason = match answer {
            Ok(Ok(())) => {
                self.changeable.set_met();
                return CHECK_INTERVAL;
            }
            Ok(Err(error)) => error_chain(&error),
            Err(join_error) => join_error.to_string(),
        };
        self.changeable.set_unmet(&reason);
        RETRY_INTERVAL
    }
}
