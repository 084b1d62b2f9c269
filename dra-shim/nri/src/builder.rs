//! Configures and starts a plugin.

use std::os::unix::net::{SocketAddr, UnixStream as StdUnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::identity::{Identity, Late};
use crate::inherited::Inherited;
use crate::plugin::Plugin;
use crate::service::{Service, Source};
use crate::session::Shared;
use crate::state::State;
use crate::updates::Updates;

/// The socket of containerd and CRI-O.
const SOCKET: &str = "/var/run/nri/nri.sock";

/// Configuration of a plugin's service, from [`Service::builder`].
#[must_use]
#[derive(Debug)]
pub struct ServiceBuilder {
    index: u8,
    name: String,
    late: Late,
    socket: PathBuf,
    connection: Option<StdUnixStream>,
}

/// Why a plugin cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The index has more than two digits.
    #[error("plugin index {0} is invalid: it must be 0 to 99")]
    Index(u8),
    /// The runtime would refuse the name.
    #[error("plugin name {0:?} is invalid: only letters, digits, and - _ . + are allowed")]
    Name(String),
    /// The path of the socket is empty or longer than 107 bytes.
    #[error("socket path {path:?} is invalid: it must have 1 to 107 bytes")]
    Socket {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The plugin has no events. For NRI that would mean all events.
    #[error("the plugin subscribes to no events")]
    NoEvents,
    /// The connection from the runtime that has started this process is not usable.
    #[error("cannot use the connection from the runtime: {0}")]
    Inherited(String),
    /// tokio cannot use the given connection.
    #[error("cannot use the given connection")]
    Connection(#[source] std::io::Error),
}

// === impl Service ===

impl Service {
    /// Configures a plugin with this index and name. The runtime calls plugins in the order of
    /// their indices, 0 to 99; plugins that adjust containers come before those that check
    /// them. The name is for logs: letters, digits, and `-`, `_`, `.`, `+`.
    pub fn builder(index: u8, name: impl Into<String>) -> ServiceBuilder {
        ServiceBuilder {
            index,
            name: name.into(),
            late: Late::default(),
            socket: SOCKET.into(),
            connection: None,
        }
    }
}

// === impl ServiceBuilder ===

impl ServiceBuilder {
    /// Sets the runtime's socket. Default: `/var/run/nri/nri.sock`.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = path.into();
        self
    }

    /// Uses an existing connection instead of a socket. The service ends with it.
    pub fn connection(mut self, connection: StdUnixStream) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Sets the answer for a plugin that does not answer in time.
    pub const fn on_late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// Starts the plugin, and returns at once. The service connects, and reconnects when the
    /// connection is lost: after 50 ms to one second while nothing listens on the socket, and
    /// after at most five seconds while registrations fail.
    ///
    /// A runtime that starts plugins itself gives them a connection, an index and a name in the
    /// environment (`NRI_PLUGIN_SOCKET`, `NRI_PLUGIN_IDX`, `NRI_PLUGIN_NAME`). They take
    /// precedence over the builder's values, except for [`ServiceBuilder::connection`]. The
    /// runtime starts a program in `/opt/nri/plugins` with a name such as `50-names` once, with
    /// the text of `/etc/nri/conf.d/50-names.conf` as its configuration. The service ends with
    /// that connection: [`Service::ended`] returns, and the process should exit. To own the
    /// descriptor without `unsafe`, this uses `pidfd_getfd` (Linux 5.6). On an older kernel, make
    /// a `UnixStream` from the number and pass it to [`ServiceBuilder::connection`].
    ///
    /// # Errors
    ///
    /// [`StartError`] for a configuration that can never work. A missing listener is no error.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time.
    pub fn start<P: Plugin>(self, plugin: P) -> Result<Service, StartError> {
        self.start_with(|_| plugin)
    }

    /// Like [`ServiceBuilder::start`], for a plugin that updates containers by itself:
    /// `plugin` gets the value of [`Service::updates`]. See [`Updates::update`] for its use
    /// within a method.
    ///
    /// # Errors
    ///
    /// See [`ServiceBuilder::start`].
    ///
    /// # Panics
    ///
    /// See [`ServiceBuilder::start`].
    pub fn start_with<P: Plugin>(
        self,
        plugin: impl FnOnce(Updates) -> P,
    ) -> Result<Service, StartError> {
        if self.index > 99 {
            return Err(StartError::Index(self.index));
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_allowed) {
            return Err(StartError::Name(self.name));
        }
        let (calls, of_registration) = watch::channel(None);
        let plugin = plugin(Updates {
            calls: of_registration,
        });
        if plugin.events().is_empty() {
            return Err(StartError::NoEvents);
        }
        let mut identity = Identity {
            index: format!("{:02}", self.index),
            name: self.name,
            late: self.late,
        };
        let connection = match self.connection {
            Some(connection) => Some(connection),
            None => match Inherited::find() {
                None => None,
                Some(inherited) => {
                    let inherited = inherited.map_err(StartError::Inherited)?;
                    identity.index = inherited.index.unwrap_or(identity.index);
                    identity.name = inherited.name.unwrap_or(identity.name);
                    Some(inherited.stream)
                }
            },
        };
        let source = match connection {
            None => Source::Socket(socket_path(self.socket)?),
            Some(connection) => Source::Connection(
                connection
                    .set_nonblocking(true)
                    .and_then(|()| UnixStream::from_std(connection))
                    .map_err(StartError::Connection)?,
            ),
        };
        let shared = Shared {
            plugin: Arc::new(plugin),
            identity,
            state: watch::Sender::new(State::Connecting(None)),
            calls,
            stop: CancellationToken::new(),
        };
        Ok(Service::start(shared, source))
    }
}

/// Checks the path of a socket: the kernel accepts at most 107 bytes.
fn socket_path(path: PathBuf) -> Result<PathBuf, StartError> {
    let checked = if path.as_os_str().is_empty() {
        Err(std::io::ErrorKind::InvalidInput.into())
    } else {
        SocketAddr::from_pathname(&path).map(|_| ())
    };
    match checked {
        Ok(()) => Ok(path),
        Err(source) => Err(StartError::Socket { path, source }),
    }
}
