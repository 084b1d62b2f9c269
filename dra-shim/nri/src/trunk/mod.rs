//! One connection to a peer: calls in both directions over one stream socket.
//!
//! ```text
//!              ┌──────── reader ─── requests ──► permit ──► a task for each: Serve
//!  stream ◄──► │            └────── responses ─► Calls              │
//!              └──────── writer ◄── queue of 4 ◄────────────────────┘ answers
//!                                       ▲───────── Calls (requests)
//! ```
//!
//! # Sixteen calls at once, without a deadlock
//!
//! A request needs one of 16 permits, and keeps it until its answer is queued at the writer.
//! Without a free permit the reader stops: the peer's socket fills up, which slows the peer
//! down without an error. The frames of the other connection wait meanwhile, so the plugin's
//! own calls may wait for its handlers. That wait is limited: a handler ends at its deadline at
//! the latest, and the writer ends the trunk if the peer reads nothing for ten seconds.
//! Responses need no permit, so the reader never waits with one.

mod calls;
mod error;
mod reader;
mod serve;
mod writer;

use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use calls::{CallError, Calls};
pub(crate) use error::TrunkError;
use serve::Server;
pub(crate) use serve::{Answer, Call, Serve};

use crate::wire::ConnectionId;

/// Length of the writer's queue, in messages.
const OUTBOUND: usize = 4;

/// A trunk. Dropping it ends the connection and all calls in both directions.
pub(crate) struct Trunk {
    calls: Calls,
    server: Server,
    running: JoinHandle<TrunkError>,
    stop: DropGuard,
}

// === impl Trunk ===

impl Trunk {
    /// Serves the connection `own` of the trunk; calls use the other one.
    pub(crate) fn open<S: Serve>(stream: UnixStream, own: ConnectionId, service: Arc<S>) -> Self {
        let stop = CancellationToken::new();
        let (outbound, queue) = mpsc::channel(OUTBOUND);
        let called = match own {
            ConnectionId::Plugin => ConnectionId::Runtime,
            ConnectionId::Runtime => ConnectionId::Plugin,
        };
        let calls = Calls::new(called, outbound.clone());
        let server = Server::new(own, outbound, stop.clone());
        let (read, write) = stream.into_split();
        let running = tokio::spawn(run(
            reader::read(read, server.clone(), service, calls.clone()),
            writer::write(write, queue),
            calls.clone(),
            stop.clone(),
        ));
        Self {
            calls,
            server,
            running,
            stop: stop.drop_guard(),
        }
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Waits until the trunk has ended by itself.
    pub(crate) async fn ended(&mut self) -> TrunkError {
        match (&mut self.running).await {
            Ok(error) => error,
            Err(_) => TrunkError::Closed,
        }
    }

    /// Waits until all received requests are answered. Takes no further ones.
    pub(crate) async fn drain(&self) {
        self.server.drain().await;
    }

    /// Ends the trunk, and waits until the socket is closed.
    pub(crate) async fn close(self) {
        drop(self.stop);
        // `ended` may have taken the result already.
        if !self.running.is_finished() {
            let _ = self.running.await;
        }
    }
}

async fn run(
    read: impl Future<Output = TrunkError>,
    write: impl Future<Output = TrunkError>,
    calls: Calls,
    stop: CancellationToken,
) -> TrunkError {
    let ended = tokio::select! {
        error = read => error,
        error = write => error,
        () = stop.cancelled() => TrunkError::Closed,
    };
    // Cancels the handlers' contexts, also if the peer has ended the trunk.
    stop.cancel();
    calls.end();
    ended
}
