//! A proxy between a controller and the API server. It can cut connections, and hold requests and
//! forward them later. It does not terminate TLS.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::kubeconfig::server_address;

/// How long a connection with a held request waits for the response.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A proxy that serves until dropped.
pub(crate) struct Proxy {
    address: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    server: String,
    hold: watch::Sender<bool>,
    held: AtomicUsize,
    connections: Mutex<Vec<JoinHandle<()>>>,
}

impl Proxy {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let shared = Arc::new(Shared {
            server: server_address()?,
            hold: watch::Sender::new(false),
            held: AtomicUsize::new(0),
            connections: Mutex::default(),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            task,
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// From now on, holds the controller's requests. The server's responses and watch events still
    /// arrive.
    pub(crate) fn hold(&self) {
        self.shared.hold.send_replace(true);
    }

    /// Forwards the held requests, even on connections that the controller has closed. Returns the
    /// number of connections with held requests.
    pub(crate) fn release(&self) -> usize {
        self.shared.hold.send_replace(false);
        self.shared.held.swap(0, Ordering::Relaxed)
    }

    /// Ends every connection.
    pub(crate) fn cut(&self) {
        self.shared.abort_connections();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.abort_connections();
    }
}

impl Shared {
    fn spawn(&self, direction: impl Future<Output = std::io::Result<()>> + Send + 'static) {
        let task = tokio::spawn(async move { drop(direction.await) });
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
    }

    fn abort_connections(&self) {
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for task in connections.drain(..) {
            task.abort();
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((controller, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&shared.server).await else {
            continue;
        };
        let (requests, answers_to) = controller.into_split();
        let (answers, requests_to) = server.into_split();
        let (answered, seen) = watch::channel(());
        // Two tasks: held requests are forwarded even if the controller has disconnected.
        let hold = Arc::clone(&shared);
        shared.spawn(pass_requests(requests, requests_to, hold, seen));
        shared.spawn(pass_answers(answers, answers_to, answered));
    }
}

async fn pass_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    mut answered: watch::Receiver<()>,
) -> std::io::Result<()> {
    let mut hold = shared.hold.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        let was_held = *hold.borrow_and_update();
        if was_held {
            shared.held.fetch_add(1, Ordering::Relaxed);
            drop(hold.wait_for(|hold| !hold).await);
        }
        answered.mark_unchanged();
        to.write_all(&buffer[..count]).await?;
        if was_held {
            // The server drops requests of closed connections: do not close too soon.
            drop(tokio::time::timeout(ANSWER_LIMIT, answered.changed()).await);
        }
    }
}

async fn pass_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    answered: watch::Sender<()>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        answered.send_replace(());
        // The controller may have disconnected; still read the server's responses.
        drop(to.write_all(&buffer[..count]).await);
    }
}
