//! A running plugin: its status and its end.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use crate::operations::Drain;
use crate::registration::Registration;
use crate::server::SocketError;
use crate::slices::Publication;

/// How long cancelled attempts and closing servers may take at the end of a shutdown.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// A running plugin, started by [`PluginBuilder::start`](crate::PluginBuilder::start).
///
/// Dropping it stops it at once: every
/// [`Context::cancellation`](crate::Context::cancellation) fires, no further attempt
/// begins, the sockets are removed, and nothing is published any more. Attempts in
/// flight are not waited for and run to their end. A plugin that the same process
/// starts meanwhile does not know of them, since attempts at a claim are ordered within
/// one plugin only. [`Plugin::shutdown`] waits.
pub struct Plugin {
    pub(crate) registration: watch::Receiver<Registration>,
    pub(crate) publication: Option<watch::Receiver<Publication>>,
    pub(crate) other_instances: watch::Receiver<Vec<PathBuf>>,
    /// None once it has ended.
    pub(crate) supervisor: Option<JoinHandle<Result<(), SocketError>>>,
    pub(crate) publisher: Option<AbortOnDropHandle<()>>,
    pub(crate) drain: Drain,
    pub(crate) shutdown_grace: Duration,
    pub(crate) stop: DropGuard,
}

// === impl Plugin ===

impl Plugin {
    /// Where the registration with kubelet stands; the plugin is ready when it is
    /// [`Registration::Registered`].
    pub fn registration(&self) -> watch::Receiver<Registration> {
        self.registration.clone()
    }

    /// Where publishing stands; `None` without
    /// [`PluginBuilder::publish`](crate::PluginBuilder::publish). After the plugin's end
    /// the last value remains, and the sender is dropped.
    pub fn publication(&self) -> Option<watch::Receiver<Publication>> {
        self.publication.clone()
    }

    /// The sockets of other instances of the driver on this node that accept connections
    /// and stay: those of this library for longer than an update takes (ten minutes),
    /// those of Go's kubeletplugin for more than a minute. Empty if all is well. Two
    /// plugins of one name take each other's registration and calls: one of them has to
    /// go. Looked at once a minute, on this node only.
    pub fn other_instances(&self) -> watch::Receiver<Vec<PathBuf>> {
        self.other_instances.clone()
    }

    /// Returns only if the sockets were lost and could not be opened again for 30 s. The
    /// process cannot be reached any more and should exit. Cancel-safe.
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

    /// Stops in bounded time. Calls in flight, and those that still come in, get the grace
    /// period to end by themselves; then they are cancelled and answered as such, within
    /// three more seconds. The health streams end and the sockets are removed, which is
    /// how kubelet learns of it. Slices stay: kubelet removes them after 30 s unless
    /// another instance has registered.
    ///
    /// Dropping the future midway, for example by a timeout, is dropping the [`Plugin`]:
    /// the rest of the grace period is skipped.
    pub async fn shutdown(self) {
        let Self {
            supervisor,
            publisher,
            drain,
            shutdown_grace,
            stop,
            ..
        } = self;
        if !drain.run(shutdown_grace, CANCEL_TIMEOUT).await {
            tracing::warn!(
                grace = ?shutdown_grace,
                "attempts were still in flight at the end of the grace period"
            );
        }
        drop(stop);
        if let Some(mut supervisor) = supervisor
            && tokio::time::timeout(2 * CANCEL_TIMEOUT, &mut supervisor)
                .await
                .is_err()
        {
            supervisor.abort();
        }
        drop(publisher);
    }
}
