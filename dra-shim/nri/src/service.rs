//! A running plugin: state, updates, shutdown.

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

/// Failed connects that are not logged, because the runtime may be restarting: about three seconds.
const RESTART: u32 = 7;

/// The source of connections.
pub(crate) enum Source {
    /// Connections to this socket, renewed when lost.
    Socket(PathBuf),
    /// Only this connection.
    Connection(UnixStream),
}

/// A running plugin, started by [`ServiceBuilder::start`](crate::ServiceBuilder::start).
///
/// Dropping it starts a [`Service::shutdown`] without waiting for the end.
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

    /// The state of the registration. It changes with the registration, or with the reason why
    /// there is none, not with each retry. After the service's end the last value remains, and the
    /// sender is dropped.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// A handle for unsolicited updates of containers.
    pub fn updates(&self) -> Updates {
        self.updates.clone()
    }

    /// Waits for the end of a given or inherited connection: the runtime has ended or has dropped
    /// the plugin, and the service cannot reconnect. The process should exit. With a socket the
    /// service reconnects, and this waits forever. Cancel-safe.
    pub async fn ended(&mut self) -> Arc<ConnectionError> {
        let ended = self
            .state
            .wait_for(|state| matches!(state, State::Ended(_)))
            .await;
        match ended.as_deref() {
            Ok(State::Ended(Some(error))) => return Arc::clone(error),
            Ok(_) => {}
            // The sender is dropped: the service has ended.
            Err(_) => return Arc::new(ConnectionError::Closed),
        }
        std::future::pending().await
    }

    /// Shuts down: takes no more calls, answers those in progress, and closes the connection. This
    /// takes no longer than the runtime's time-out (2 s), at most three seconds. The runtime
    /// continues without the plugin.
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

/// Connects, and reconnects after each failure, until the service is stopped.
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

/// Logs why the plugin is not registered: each reason once, not each retry.
#[derive(Debug, Default)]
struct Report {
    last: String,
    /// Failed connects since the last connection; `None` before the first connection.
    no_listener: Option<u32>,
}

// === impl Report ===

impl Report {
    /// Notes a connection. After a registration every reason is logged again.
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
                // Not logged while the runtime may be restarting.
                *tries <= RESTART
            }
            _ => false,
        };
        let text = error_chain(error);
        if is_restart || self.last == text {
            return;
        }
        let (code, hint) = (error.code(), error.hint());
        tracing::warn!(
            error = text,
            code,
            hint,
            "not registered with the container runtime; retrying"
        );
        self.last = text;
    }
}
