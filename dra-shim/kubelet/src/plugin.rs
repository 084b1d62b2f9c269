//! A running plugin: status and shutdown.

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

/// Time that a shutdown allows for cancelled attempts and for closing servers.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// A running plugin, started by [`PluginBuilder::start`](crate::PluginBuilder::start).
///
/// Dropping it stops the plugin at once: every
/// [`Context::cancellation`](crate::Context::cancellation) fires, no further attempt
/// begins, the sockets are removed, and publishing ends. Attempts in flight run to their
/// end in the background. Attempts are ordered only within one plugin, so those of a new
/// plugin in the same process may overlap with them. [`Plugin::shutdown`] waits for them.
pub struct Plugin {
    pub(crate) registration: watch::Receiver<Registration>,
    pub(crate) publication: Option<watch::Receiver<Publication>>,
    pub(crate) other_instances: watch::Receiver<Vec<PathBuf>>,
    /// `None` once it has ended.
    pub(crate) supervisor: Option<JoinHandle<Result<(), SocketError>>>,
    pub(crate) publisher: Option<AbortOnDropHandle<()>>,
    pub(crate) drain: Drain,
    pub(crate) shutdown_grace: Duration,
    pub(crate) stop: DropGuard,
}

// === impl Plugin ===

impl Plugin {
    /// The state of the registration with kubelet. The plugin is ready when it is
    /// [`Registration::Registered`].
    pub fn registration(&self) -> watch::Receiver<Registration> {
        self.registration.clone()
    }

    /// The state of publishing; `None` without
    /// [`PluginBuilder::publish`](crate::PluginBuilder::publish). At the plugin's end the
    /// sender is dropped, and the last value remains.
    pub fn publication(&self) -> Option<watch::Receiver<Publication>> {
        self.publication.clone()
    }

    /// The live sockets of other instances of the driver on this node that should have ended.
    /// Normally empty. An instance of this library is reported after ten minutes, the time
    /// that an update takes; an instance of Go's kubeletplugin after a minute. Two plugins
    /// with one name take each other's registration and calls, so one of them must be
    /// removed. Checked every 30 s.
    pub fn other_instances(&self) -> watch::Receiver<Vec<PathBuf>> {
        self.other_instances.clone()
    }

    /// Returns only if the sockets were lost and could not be reopened for 30 s. kubelet
    /// cannot reach the process any more, so it should exit. Cancel-safe.
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

    /// Stops the plugin in bounded time. Current and new calls can end by themselves during
    /// the grace period. After it they are cancelled and answered with an error, within three
    /// more seconds. Then the health streams end and the sockets are removed, so kubelet
    /// unregisters the plugin. Slices remain: kubelet deletes them after 30 s unless another
    /// instance has registered.
    ///
    /// Dropping the future midway, for example by a timeout, drops the [`Plugin`] and skips
    /// the rest of the grace period.
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
                "shutting down, although some cancelled attempts are still running after the grace period"
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
