//! A running plugin: its state, its updates and its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dra_common::error_chain;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use crate::backoff::Backoff;
use crate::error::ConnectionError;
use crate::plugin::Plugin;
use crate::session::{self, Shared};
use crate::state::State;
use crate::updates::Updates;

/// Tries during a restart of the runtime: for about three seconds.
const RESTART: u32 = 7;

/// Where connections come from.
pub(crate) enum Source {
    /// Made to this socket, again and again.
    Socket(PathBuf),
    /// This one, and no other.
    Connection(UnixStream),
}

/// A running plugin, started by [`ServiceBuilder::start`](crate::ServiceBuilder::start).
///
/// Dropping it is a [`Service::shutdown`] for which nobody waits.
pub struct Service {
    state: watch::Receiver<State>,
    updates: Updates,
    running: JoinHandle<()>,
    stop: DropGuard,
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

    /// Where the registration stands. It changes when the registration does, or the reason
    /// why there is none, and not with each try. After the service's end the last value remains, and
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
        match ended.as_deref() {
            Ok(State::Ended(Some(error))) => return Arc::clone(error),
            Ok(_) => {}
            // The sender is dropped: nothing connects any more.
            Err(_) => return Arc::new(ConnectionError::Closed),
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
// req: NRI-5
async fn connect_for_ever<P: Plugin>(shared: &Shared<P>, path: &Path) {
    let mut backoff = Backoff::new();
    let mut report = Report::default();
    loop {
        let (error, wait) = match UnixStream::connect(path).await {
            Ok(stream) => {
                let end = session::run(shared, stream).await;
                let Some(error) = end.error else { return };
                report.connected(!end.registered.is_zero());
                (error, backoff.ended(end.registered))
            }
            Err(source) => {
                let path = path.to_owned();
                let error = ConnectionError::Connect { path, source };
                (Arc::new(error), backoff.no_listener())
            }
        };
        report.failed(&error);
        shared.state.send_if_modified(|state| {
            let has_changed = match state {
                State::Connecting(Some(last)) => error_chain(&**last) != error_chain(&*error),
                _ => true,
            };
            if has_changed {
                *state = State::Connecting(Some(error));
            }
            has_changed
        });
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shared.stop.cancelled() => return,
        }
    }
}

/// The log of a service without a registration: each reason once, not each try.
#[derive(Debug, Default)]
struct Report {
    last: String,
    /// Tries since there was somebody to connect to; `None` if there never was.
    no_listener: Option<u32>,
}

// === impl Report ===

impl Report {
    /// There was a connection; with a registration every reason is new again.
    fn connected(&mut self, registered: bool) {
        self.no_listener = Some(0);
        if registered {
            self.last.clear();
        }
    }

    fn failed(&mut self, error: &ConnectionError) {
        let is_restart = match (error, &mut self.no_listener) {
            (ConnectionError::Connect { .. }, Some(tries)) => {
                *tries += 1;
                // As long as a runtime takes to restart, that nobody listens is no news.
                *tries <= RESTART
            }
            _ => false,
        };
        let text = error_chain(error);
        if is_restart || self.last == text {
            return;
        }
        let (code, hint) = (error.code(), error.hint());
        tracing::warn!(error = text, code, hint, "not registered with the runtime");
        self.last = text;
    }
}
