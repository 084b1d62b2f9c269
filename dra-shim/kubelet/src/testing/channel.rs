//! The gRPC channel to a plugin's service: one connection that is opened at once, kept open,
//! and reopened when it is lost.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::http2::{self, Transport};
use super::options::{BackOff, Times};

/// grpc-go's connectivity states.
#[derive(Clone)]
enum State {
    /// Calls wait for the connection.
    Connecting,
    /// Calls are sent.
    Ready(Transport),
    /// Calls fail at once: kubelet does not use wait-for-ready.
    Failed(String),
}

/// Keeps the connection open. Dropping it cuts the connection.
pub(super) struct Channel {
    state: watch::Receiver<State>,
    _stop: DropGuard,
}

impl Channel {
    /// Begins to connect. The channel's task calls `changed` when a connection is opened
    /// (`true`) or lost (`false`).
    pub(super) fn open(
        endpoint: &Path,
        origin: http::Uri,
        times: &Times,
        changed: impl Fn(bool) + Send + Sync + 'static,
    ) -> Self {
        let (sender, state) = watch::channel(State::Connecting);
        let stop = CancellationToken::new();
        let keeping = keep(endpoint.into(), origin, times.clone(), sender, changed);
        tokio::spawn(stop.clone().run_until_cancelled_owned(keeping));
        Self {
            state,
            _stop: stop.drop_guard(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(*self.state.borrow(), State::Ready(_))
    }

    /// Waits until connecting has succeeded or failed, and returns the connection.
    pub(super) async fn transport(&self) -> Result<Transport, String> {
        let mut state = self.state.clone();
        let known = state
            .wait_for(|state| !matches!(state, State::Connecting))
            .await;
        match known.as_deref() {
            Ok(State::Ready(transport)) => Ok(transport.clone()),
            Ok(State::Failed(reason)) => Err(reason.clone()),
            Ok(State::Connecting) | Err(_) => Err("the connection is closing".to_owned()),
        }
    }
}

async fn keep(
    endpoint: Arc<Path>,
    origin: http::Uri,
    times: Times,
    state: watch::Sender<State>,
    changed: impl Fn(bool),
) {
    let mut back_off = BackOff::grpc(&times);
    loop {
        match http2::connect(&endpoint, origin.clone()).await {
            Ok((transport, connection)) => {
                let began = Instant::now();
                state.send_replace(State::Ready(transport));
                changed(true);
                connection.ended().await;
                state.send_replace(State::Connecting);
                changed(false);
                if began.elapsed() > times.reconnect {
                    back_off = BackOff::grpc(&times);
                } else {
                    // For grpc-go, a server that accepts and hangs up was never ready.
                    tokio::time::sleep(back_off.next()).await;
                }
            }
            Err(error) => {
                let reason = format!("connection error: {error}");
                state.send_replace(State::Failed(reason));
                tokio::time::sleep(back_off.next()).await;
                state.send_replace(State::Connecting);
            }
        }
    }
}
