//! Starts a plugin.

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

/// Where containerd and CRI-O listen.
const SOCKET: &str = "/var/run/nri/nri.sock";

/// How to run a plugin; made by [`Service::builder`].
#[must_use]
#[derive(Debug)]
pub struct ServiceBuilder {
    index: u8,
    name: String,
    late: Late,
    socket: PathBuf,
    connection: Option<StdUnixStream>,
}

/// Why a plugin was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The index has more than two digits.
    #[error("{0} is no index of a plugin: 0 to 99")]
    Index(u8),
    /// The runtime would refuse the name.
    #[error("{0:?} is no name of a plugin: letters, digits, and - _ . + are allowed")]
    Name(String),
    /// No socket can have this path: it is empty, or longer than 107 bytes.
    #[error("{path:?} is no path of a socket: it needs 1 to 107 bytes")]
    Socket {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The plugin states no event, which for NRI means all of them.
    #[error("the plugin states no events")]
    NoEvents,
    /// The runtime that has started this process gave it no usable connection.
    #[error("the runtime's connection cannot be used: {0}")]
    Inherited(String),
    /// The given connection cannot be used by tokio.
    #[error("the given connection cannot be used")]
    Connection(#[source] std::io::Error),
}

// === impl Service ===

impl Service {
    /// The plugin's index and name. Plugins are called in the order of their indices, 0 to
    /// 99; those that adjust what others look at come first. The name is for logs: letters,
    /// digits, and `-`, `_`, `.`, `+`.
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
    /// The runtime's socket, if it is not `/var/run/nri/nri.sock`.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = path.into();
        self
    }

    /// A connection that is there already, instead of a socket. When it ends, so does the
    /// service.
    pub fn connection(mut self, connection: StdUnixStream) -> Self {
        self.connection = Some(connection);
        self
    }

    /// What is answered for the plugin if it does not answer in time.
    pub const fn on_late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// Starts the plugin, and returns at once: the service connects until it succeeds, and
    /// again whenever the connection is lost, after 50 ms to one second while nobody
    /// listens, and after at most five seconds while registrations fail.
    ///
    /// A runtime that starts plugins itself gives them a connection, an index and a name
    /// (`NRI_PLUGIN_SOCKET`, `NRI_PLUGIN_IDX`, `NRI_PLUGIN_NAME` in the environment). They
    /// take precedence over what was set here, except for
    /// [`ServiceBuilder::connection`]. The runtime starts a program in `/opt/nri/plugins` with a
    /// name such as `50-names` once, with the text of `/etc/nri/conf.d/50-names.conf` as its
    /// configuration. When the connection ends, so does the service: [`Service::ended`] returns,
    /// and the process should exit. To own the descriptor without `unsafe`, this uses
    /// `pidfd_getfd` of Linux 5.6. On an older kernel, make a `UnixStream` of the number and pass
    /// it to [`ServiceBuilder::connection`].
    ///
    /// # Errors
    ///
    /// [`StartError`] for what would never succeed. That nobody listens is no error.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time.
    pub fn start<P: Plugin>(self, plugin: P) -> Result<Service, StartError> {
        self.start_with(|_| plugin)
    }

    /// [`ServiceBuilder::start`] of a plugin that updates containers by itself: it gets what
    /// [`Service::updates`] returns when it is made. See [`Updates::update`] for how to use
    /// it within a method.
    ///
    /// # Errors
    ///
    /// As [`ServiceBuilder::start`].
    ///
    /// # Panics
    ///
    /// As [`ServiceBuilder::start`].
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

/// The path of a socket, which the kernel takes up to 107 bytes of.
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
