//! The fake: a socket, and the plugin that has registered on it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::options::Options;
use super::registration::{Registered, register};
use crate::plugin::Changes;
use crate::trunk::Calls;

/// A fake runtime. Dropping it is [`FakeRuntime::stop`].
pub struct FakeRuntime {
    socket: PathBuf,
    pub(super) options: Options,
    pub(super) plugin: watch::Receiver<Option<Connected>>,
    failures: Arc<Mutex<Vec<String>>>,
    updates: Arc<Mutex<Vec<Changes>>>,
    sender: watch::Sender<Option<Connected>>,
    listening: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The plugin that is registered now.
#[derive(Clone)]
pub(super) struct Connected {
    pub(super) registered: Registered,
    pub(super) calls: Calls,
    /// Closes the connection.
    pub(super) leave: watch::Sender<bool>,
}

// === impl FakeRuntime ===

impl FakeRuntime {
    /// Listens on a socket, within a tokio runtime. A file that is there already is removed.
    pub fn start(socket: impl AsRef<Path>, options: Options) -> io::Result<Self> {
        let (sender, plugin) = watch::channel(None);
        let fake = Self {
            socket: socket.as_ref().to_owned(),
            options,
            plugin,
            failures: Arc::default(),
            updates: Arc::default(),
            sender,
            listening: Mutex::default(),
        };
        fake.listen()?;
        Ok(fake)
    }

    /// Waits until a plugin is registered, as long as it takes.
    pub async fn wait_registered(&self) -> Registered {
        let mut plugin = self.plugin.clone();
        let connected = plugin.wait_for(Option::is_some).await;
        match connected.as_deref() {
            Ok(Some(connected)) => connected.registered.clone(),
            // `self` has the sender.
            _ => std::future::pending().await,
        }
    }

    /// Waits until no plugin is registered, as long as it takes.
    pub async fn wait_gone(&self) {
        let _ = self.plugin.clone().wait_for(Option::is_none).await;
    }

    /// Closes the plugin's connection and the socket, as a runtime that ends.
    pub async fn stop(&self) {
        *self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        let _ = std::fs::remove_file(&self.socket);
        self.wait_gone().await;
    }

    /// [`FakeRuntime::stop`], and another process takes its place.
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        self.listen()
    }

    /// The unsolicited updates so far, and what else they asked for.
    pub fn updates(&self) -> Vec<Changes> {
        self.updates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Why connections so far have not led to a registration, in NRI's words.
    pub fn failures(&self) -> Vec<String> {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn listen(&self) -> io::Result<()> {
        let _ = std::fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket)?;
        let serving = serve(
            listener,
            self.options.clone(),
            self.sender.clone(),
            Arc::clone(&self.failures),
            Arc::clone(&self.updates),
        );
        let serving = AbortOnDropHandle::new(tokio::spawn(serving));
        *self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(serving);
        Ok(())
    }
}

/// Takes the plugin away when the fake stops, however that happens.
struct Leaving(watch::Sender<Option<Connected>>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// Fact: one connection after the other.
async fn serve(
    listener: UnixListener,
    options: Options,
    plugin: watch::Sender<Option<Connected>>,
    failures: Arc<Mutex<Vec<String>>>,
    updates: Arc<Mutex<Vec<Changes>>>,
) {
    let leaving = Leaving(plugin);
    while let Ok((stream, _)) = listener.accept().await {
        let (registered, mut trunk) = match register(stream, &options, Arc::clone(&updates)).await {
            Ok(plugin) => plugin,
            Err(failure) => {
                failures
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(failure);
                continue;
            }
        };
        let (leave, mut left) = watch::channel(false);
        let calls = trunk.calls().clone();
        leaving.0.send_replace(Some(Connected {
            registered,
            calls,
            leave,
        }));
        tokio::select! {
            _ = trunk.ended() => {}
            _ = left.wait_for(|left| *left) => {}
        }
        leaving.0.send_replace(None);
    }
}
