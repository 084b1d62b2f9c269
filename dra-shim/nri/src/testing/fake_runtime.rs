//! The fake runtime: its socket, and the registered plugin.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::options::Options;
use super::registration::{Registered, register};
use super::unsolicited_updates::UnsolicitedUpdates;
use crate::plugin::Changes;
use crate::trunk::Calls;

/// A fake runtime. Dropping it stops it, like [`FakeRuntime::stop`].
pub struct FakeRuntime {
    socket: PathBuf,
    pub(super) options: Options,
    pub(super) plugin: watch::Receiver<Option<Connected>>,
    failures: Arc<Mutex<Vec<String>>>,
    pub(super) updates: Arc<UnsolicitedUpdates>,
    sender: watch::Sender<Option<Connected>>,
    listening: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The registered plugin.
#[derive(Clone)]
pub(super) struct Connected {
    pub(super) registered: Registered,
    pub(super) calls: Calls,
    /// Closes the connection.
    pub(super) leave: watch::Sender<bool>,
}

// === impl FakeRuntime ===

impl FakeRuntime {
    /// Listens on a socket, within a tokio runtime. An existing file is removed.
    pub fn start(socket: impl AsRef<Path>, options: Options) -> io::Result<Self> {
        let (sender, plugin) = watch::channel(None);
        let updates = UnsolicitedUpdates::new(options.failing_updates.clone());
        let fake = Self {
            socket: socket.as_ref().to_owned(),
            options,
            plugin,
            failures: Arc::default(),
            updates: Arc::new(updates),
            sender,
            listening: Mutex::default(),
        };
        fake.listen()?;
        Ok(fake)
    }

    /// Waits until a plugin is registered, without a time limit.
    pub async fn wait_registered(&self) -> Registered {
        let mut plugin = self.plugin.clone();
        let connected = plugin.wait_for(Option::is_some).await;
        match connected.as_deref() {
            Ok(Some(connected)) => connected.registered.clone(),
            // `self` has the sender.
            _ => std::future::pending().await,
        }
    }

    /// Waits until no plugin is registered, without a time limit.
    pub async fn wait_gone(&self) {
        let _ = self.plugin.clone().wait_for(Option::is_none).await;
    }

    /// Closes the plugin's connection and the socket, like a runtime that ends.
    pub async fn stop(&self) {
        *self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        let _ = std::fs::remove_file(&self.socket);
        self.wait_gone().await;
    }

    /// Stops, and listens again, like another process of the runtime.
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        self.listen()
    }

    /// The unsolicited updates so far, with their evictions.
    pub fn updates(&self) -> Vec<Changes> {
        self.updates.recorded.borrow().clone()
    }

    /// Waits for this many [`FakeRuntime::updates`], without a time limit.
    pub async fn wait_updates(&self, count: usize) -> Vec<Changes> {
        let mut recorded = self.updates.recorded.subscribe();
        match recorded.wait_for(|updates| updates.len() >= count).await {
            Ok(updates) => updates.clone(),
            // `self` has the sender.
            Err(_) => std::future::pending().await,
        }
    }

    /// Errors of failed registrations so far, in NRI's words.
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

/// Removes the plugin when the fake stops, however that happens.
struct Leaving(watch::Sender<Option<Connected>>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// Fact: NRI serves one connection after the other.
async fn serve(
    listener: UnixListener,
    options: Options,
    plugin: watch::Sender<Option<Connected>>,
    failures: Arc<Mutex<Vec<String>>>,
    updates: Arc<UnsolicitedUpdates>,
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
