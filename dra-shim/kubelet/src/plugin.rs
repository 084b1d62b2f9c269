//! A running plugin: what it says of itself, and its end.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use crate::builder::Builder;
use crate::registration::Registration;
use crate::slices::Publication;
use crate::sockets::SocketError;
use crate::work::Drain;

/// What cancelled steps and closing servers get at the end of a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running plugin.
///
/// Dropped, it stops at once: every [`Call::cancelled`](crate::Call::cancelled)
/// fires, no further attempt begins, the sockets go, and nothing is published any
/// more. Nobody waits for the steps that are at work: they run to their end, and a
/// plugin that the same process starts meanwhile does not know of them, as the
/// order of a claim's steps is kept within one plugin. [`Plugin::shutdown`] waits.
pub struct Plugin {
    pub(crate) registration: watch::Receiver<Registration>,
    pub(crate) publication: Option<watch::Receiver<Publication>>,
    /// None once it has ended.
    pub(crate) supervisor: Option<JoinHandle<Result<(), SocketError>>>,
    pub(crate) publisher: Option<AbortOnDropHandle<()>>,
    pub(crate) drain: Drain,
    pub(crate) grace: Duration,
    pub(crate) stop: DropGuard,
}

impl Plugin {
    /// Begins the settings of `driver` (its DNS name) on `node` (`spec.nodeName`).
    pub fn builder(driver: impl Into<String>, node: impl Into<String>) -> Builder {
        Builder::new(driver.into(), node.into())
    }

    /// What kubelet says about the plugin: ready is [`Registration::Registered`].
    pub fn registration(&self) -> watch::Receiver<Registration> {
        self.registration.clone()
    }

    /// How the slices stand; `None` without [`Builder::publish`]. After the plugin's
    /// end the last state stays, and the sender is gone.
    pub fn publication(&self) -> Option<watch::Receiver<Publication>> {
        self.publication.clone()
    }

    /// Ends only when a socket was lost and could not be opened again for 30 s:
    /// the process has no way to be of use any more. Cancel-safe.
    pub async fn failed(&mut self) -> SocketError {
        if let Some(supervisor) = &mut self.supervisor {
            let ended = supervisor.await;
            self.supervisor = None;
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(error) => {
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        std::future::pending().await
    }

    /// Stops in bounded time: calls in flight, and those that still come in, get
    /// the grace period to end by themselves; then they are cancelled and answered
    /// as such, in at most three seconds more. The streams end and the sockets are
    /// removed, which is how kubelet learns of it. Slices stay: kubelet removes
    /// them after 30 s without a successor.
    ///
    /// A future dropped midway, by a time-out for one, is a dropped [`Plugin`]: what
    /// is left of the grace period is forgone.
    pub async fn shutdown(self) {
        let Self {
            supervisor,
            publisher,
            drain,
            grace,
            stop,
            ..
        } = self;
        if !drain.run(grace, LAST_WORDS).await {
            tracing::warn!(
                ?grace,
                "work was still in flight at the end of the grace period"
            );
        }
        drop(stop);
        if let Some(mut supervisor) = supervisor
            && tokio::time::timeout(2 * LAST_WORDS, &mut supervisor)
                .await
                .is_err()
        {
            supervisor.abort();
        }
        drop(publisher);
    }
}
