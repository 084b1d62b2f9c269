//! A running plugin: its state, its updates and its end.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use crate::backoff::Backoff;
use crate::error::ConnectionError;
use crate::plugin::Plugin;
use crate::runtime::Runtime;
use crate::session::{self, Shared};
use crate::updates::Updates;

/// Where the registration stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum State {
    /// There is none, and the service tries. With why the last try failed, or why the last
    /// registration ended; `None` at first.
    Connecting(Option<Arc<ConnectionError>>),
    /// The runtime has synchronized the plugin, and calls it from here on.
    Registered(Arc<Runtime>),
    /// The service has ended: it was shut down, or the connection is lost that it was given
    /// or has inherited.
    Ended(Option<Arc<ConnectionError>>),
}

/// What a call is answered with that the plugin has not answered by its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// As if the plugin had nothing to change, which is what the runtime does too, after
    /// it has dropped a plugin that is late.
    #[default]
    Allow,
    /// With a refusal, where a refusal fails something. For a plugin that guards.
    Refuse,
}

/// Who the plugin is, to the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Two digits.
    pub(crate) index: String,
    pub(crate) name: String,
    pub(crate) late: Late,
}

/// Where connections come from.
pub(crate) enum Source {
    /// Made to this socket, again and again.
    Socket(PathBuf),
    /// This one, and no other.
    Connection(UnixStream),
}

/// A running plugin, started by [`ServiceBuilder::start`](crate::ServiceBuilder::start).
///
/// Dropping it stops it at once: calls in flight are cut off, and the runtime does without
/// their answers. [`Service::shutdown`] answers them first.
pub struct Service {
    state: watch::Receiver<State>,
    updates: Updates,
    running: JoinHandle<()>,
    stop: DropGuard,
}

// === impl State ===

impl State {
    /// Whether the plugin is registered: whether it is ready, for a probe.
    pub const fn is_registered(&self) -> bool {
        matches!(self, Self::Registered(_))
    }
}

// === impl Identity ===

/// As the runtime's log shows it: `50-logger`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.index, self.name)
    }
}

// === impl Service ===

impl Service {
    pub(crate) fn start<P: Plugin>(shared: Shared<P>, source: Source) -> Self {
        Self {
            state: shared.state.subscribe(),
            updates: Updates {
                calls: shared.calls.subscribe(),
            },
            stop: shared.stop.clone().drop_guard(),
            running: tokio::spawn(supervise(shared, source)),
        }
    }

    /// Where the registration stands. After the service's end the last value remains, and
    /// the sender is dropped.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Updates of containers that no event asks for.
    pub fn updates(&self) -> Updates {
        self.updates.clone()
    }

    /// Returns only if the connection has ended that the service was given or has
    /// inherited: the runtime has ended, or has dropped the plugin, and there is no way
    /// back. The process should exit. With a socket the service connects again, and this
    /// waits for ever. Cancel-safe.
    pub async fn ended(&mut self) -> Arc<ConnectionError> {
        let ended = self
            .state
            .wait_for(|state| matches!(state, State::Ended(_)))
            .await;
        if let Ok(State::Ended(Some(error))) = ended.as_deref() {
            return Arc::clone(error);
        }
        std::future::pending().await
    }

    /// Stops: takes no more calls, answers those in flight, which takes no longer than the
    /// runtime's time-out (2 s) and at most three seconds, and closes the connection. The
    /// runtime goes on without the plugin.
    pub async fn shutdown(self) {
        let Self { running, stop, .. } = self;
        drop(stop);
        let _ = running.await;
    }
}

async fn supervise<P: Plugin>(shared: Shared<P>, source: Source) {
    let error = match source {
        Source::Connection(stream) => session::run(&shared, stream).await.error,
        Source::Socket(path) => {
            connect_for_ever(&shared, &path).await;
            None
        }
    };
    shared.state.send_replace(State::Ended(error));
}

/// Until the service is stopped.
async fn connect_for_ever<P: Plugin>(shared: &Shared<P>, path: &std::path::Path) {
    let mut backoff = Backoff::new();
    let mut reported = String::new();
    loop {
        let (error, wait) = match UnixStream::connect(path).await {
            Ok(stream) => {
                let end = session::run(shared, stream).await;
                let Some(error) = end.error else { return };
                if !end.registered.is_zero() {
                    reported.clear();
                }
                (error, backoff.ended(end.registered))
            }
            Err(source) => {
                let path = path.to_owned();
                let error = ConnectionError::Connect { path, source };
                (Arc::new(error), backoff.nobody())
            }
        };
        // Each reason once, not each try.
        let text = error.to_string();
        if reported != text {
            tracing::warn!(%error, code = error.code(), hint = error.hint(), "not registered with the runtime");
            reported = text;
        }
        shared.state.send_replace(State::Connecting(Some(error)));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shared.stop.cancelled() => return,
        }
    }
}
