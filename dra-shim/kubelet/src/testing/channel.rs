//! The channel to a plugin's service, in gRPC's sense: one connection that is made at
//! once, kept open, and made again when it is lost.

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
    /// Calls fail at once: kubelet does not ask for wait-for-ready.
    Failed(String),
}

/// Keeps the connection. Dropping it cuts the connection.
pub(super) struct Channel {
    state: watch::Receiver<State>,
    _stop: DropGuard,
}

impl Channel {
    /// Begins to connect. `changed` is called for each connection made (`true`) and lost
    /// (`false`), from the channel's own task.
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

    /// The connection, as soon as it is known whether there is one.
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
                    // A server that accepts and hangs up was never ready for grpc-go.
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
