//! A proxy between kubelet and a plugin's registration socket. It can cut the
//! connection at a chosen call of the handshake.
//!
//! The plugin registers in its own directory; the proxy's socket is in kubelet's
//! directory. kubelet dials once per handshake and makes two calls on that connection,
//! `GetInfo` and `NotifyRegistrationStatus`; a call begins with a HEADERS frame.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::Node;

const PREFACE: usize = 24;
const HEADERS: u8 = 1;

/// A proxy that serves until dropped; then kubelet notices that its socket is removed.
pub(crate) struct Proxy {
    /// The directory of the plugin's registration socket.
    pub(crate) registry: PathBuf,
    socket: PathBuf,
    cuts: Arc<Mutex<VecDeque<usize>>>,
    task: JoinHandle<()>,
}

impl Node {
    /// Starts a proxy. Each element of `cuts` ends one connection, in order, at the call
    /// with this number (1 is `GetInfo`, 2 is Notify).
    pub(crate) fn proxy(&self, cuts: &[usize]) -> Result<Proxy> {
        let registry = PathBuf::from("/run").join(&self.namespace);
        fs::create_dir_all(&registry)?;
        let root = Path::new("/var/lib/kubelet/plugins_registry");
        let hidden = root.join(format!(".{}", self.namespace));
        let socket = root.join(format!("{}@proxy.sock", self.namespace));
        let listener = UnixListener::bind(&hidden)?;
        fs::rename(&hidden, &socket)?;
        let cuts = Arc::new(Mutex::new(cuts.iter().copied().collect::<VecDeque<_>>()));
        let task = tokio::spawn(serve(listener, registry.clone(), Arc::clone(&cuts)));
        Ok(Proxy {
            registry,
            socket,
            cuts,
            task,
        })
    }
}

impl Proxy {
    /// The number of connections that it will still cut.
    pub(crate) fn remaining_cuts(&self) -> usize {
        self.cuts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_dir_all(&self.registry);
    }
}

async fn serve(listener: UnixListener, registry: PathBuf, cuts: Arc<Mutex<VecDeque<usize>>>) {
    while let Ok((kubelet, _)) = listener.accept().await {
        // If the plugin does not listen yet, the connection is refused.
        let Ok(plugin) = connect(&registry).await else {
            continue;
        };
        let cut = cuts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        tokio::spawn(async move { forward(kubelet, plugin, cut).await });
    }
}

/// Connects to the plugin's socket, whatever its name.
async fn connect(registry: &Path) -> io::Result<UnixStream> {
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for entry in fs::read_dir(registry)? {
        match UnixStream::connect(entry?.path()).await {
            Ok(stream) => return Ok(stream),
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

async fn forward(kubelet: UnixStream, plugin: UnixStream, cut: Option<usize>) -> io::Result<()> {
    let (from_kubelet, mut to_kubelet) = kubelet.into_split();
    let (mut from_plugin, to_plugin) = plugin.into_split();
    tokio::select! {
        done = calls(from_kubelet, to_plugin, cut) => done,
        done = tokio::io::copy(&mut from_plugin, &mut to_kubelet) => done.map(drop),
    }
}

/// Forwards kubelet's frames; ends at the HEADERS of call `cut`.
async fn calls(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    cut: Option<usize>,
) -> io::Result<()> {
    let mut preface = [0; PREFACE];
    from.read_exact(&mut preface).await?;
    to.write_all(&preface).await?;
    let mut begun = 0;
    loop {
        // Length (24 bits), type, flags, stream.
        let mut header = [0; 9];
        from.read_exact(&mut header).await?;
        let [a, b, c, kind, ..] = header;
        if kind == HEADERS {
            begun += 1;
            if cut == Some(begun) {
                return Ok(());
            }
        }
        let length = u32::from_be_bytes([0, a, b, c]);
        let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
        from.read_exact(&mut payload).await?;
        to.write_all(&header).await?;
        to.write_all(&payload).await?;
    }
}
