//! The two sockets of a plugin and their gRPC servers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use nix::unistd::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::dra::DraService;
use super::health::HealthService;
use super::registration::{RegistrationService, RegistrationState};
use super::sockets::{Directories, SocketError, SocketFile};
use crate::claim_source::ClaimSource;
use crate::device_health::DeviceHealth;
use crate::driver::Driver;
use crate::observer::Observer;
use crate::operations::Operations;
use crate::proto::health::dra_resource_health_server::DraResourceHealthServer;
use crate::proto::registration::PluginInfo;
use crate::proto::registration::registration_server::RegistrationServer;
use crate::proto::{PLUGIN_TYPE, supported, v1, v1beta1};

/// Period of the check of the socket files. kubelet stops calling at once when they disappear.
/// So this bounds how long a clean-up job that deletes them makes the plugin unreachable.
const CHECK_PERIOD: Duration = Duration::from_secs(2);
/// Time that closing servers get to send the answers that are ready.
const FLUSH: Duration = Duration::from_secs(1);

/// The state behind the services, which outlives the endpoints.
pub(crate) struct Services<D, S> {
    pub(crate) directories: Directories,
    pub(crate) operations: Operations<D, S>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) health: watch::Receiver<Vec<DeviceHealth>>,
    pub(crate) registration: RegistrationState,
    /// The live sockets of other instances that should have ended.
    pub(crate) other_instances: watch::Sender<Vec<PathBuf>>,
    /// Whether v1 of the API is neither advertised nor served.
    pub(crate) only_v1beta1: bool,
}

/// The listening sockets. Dropping them stops serving and removes the socket files.
pub(crate) struct Endpoints {
    /// Dropped before `service`: kubelet unregisters first.
    registration: SocketFile,
    service: SocketFile,
    servers: JoinSet<Result<(), tonic::transport::Error>>,
    stop: CancellationToken,
}

// === impl Endpoints ===

impl Endpoints {
    /// Opens the sockets. The service listens before the registration socket exists, because
    /// kubelet may call it right after registration.
    // req: KUBELET-1, KUBELET-36
    pub(crate) fn open<D: Driver, S: ClaimSource>(
        services: &Services<D, S>,
    ) -> Result<Self, SocketError> {
        let paths = services.directories.new_sockets()?;
        let stop = CancellationToken::new();
        let mut servers = JoinSet::new();

        let (service, listener) = SocketFile::open(&paths.service)?;
        // req: KUBELET-49
        let health = HealthService {
            devices: services.health.clone(),
            observer: Arc::clone(&services.observer),
            stop: stop.clone(),
        };
        let dra = || DraService(services.operations.clone());
        let v1 = (!services.only_v1beta1)
            .then(dra)
            .map(v1::dra_plugin_server::DraPluginServer::new);
        let server = Server::builder()
            .add_optional_service(v1)
            .add_service(v1beta1::dra_plugin_server::DraPluginServer::new(dra()))
            .add_service(DraResourceHealthServer::new(health));
        let stopped = stop.clone().cancelled_owned();
        servers.spawn(server.serve_with_incoming_shutdown(connections(listener), stopped));

        let (registration, listener) = SocketFile::open(&paths.registration)?;
        // req: KUBELET-5
        let registration_service = RegistrationService {
            info: PluginInfo {
                r#type: PLUGIN_TYPE.to_owned(),
                name: services.directories.driver.clone(),
                endpoint: paths.service.to_string_lossy().into_owned(),
                supported_versions: supported(services.only_v1beta1),
            },
            state: services.registration.clone(),
        };
        let server = Server::builder().add_service(RegistrationServer::new(registration_service));
        let stopped = stop.clone().cancelled_owned();
        servers.spawn(server.serve_with_incoming_shutdown(connections(listener), stopped));

        tracing::info!(registration = %registration.path().display(), service = %service.path().display(), "sockets open");
        Ok(Self {
            registration,
            service,
            servers,
            stop,
        })
    }

    pub(super) fn paths(&self) -> [&Path; 2] {
        [self.registration.path(), self.service.path()]
    }

    /// Returns the reason once kubelet can no longer reach the plugin on these sockets.
    // req: KUBELET-9
    pub(super) async fn lost(&mut self) -> String {
        loop {
            tokio::select! {
                _ = self.servers.join_next() => return "a gRPC server stopped".to_owned(),
                () = tokio::time::sleep(CHECK_PERIOD) => {}
            }
            let files = [&self.registration, &self.service];
            if let Some(file) = files.into_iter().find(|file| !file.exists()) {
                return format!("{} was removed or replaced", file.path().display());
            }
        }
    }

    /// Stops the servers within [`FLUSH`]. A client that never completes the connection preface
    /// would block a graceful shutdown forever.
    pub(super) async fn close(mut self) {
        self.stop.cancel();
        let ended = async { while self.servers.join_next().await.is_some() {} };
        if tokio::time::timeout(FLUSH, ended).await.is_err() {
            tracing::debug!("closing connections that are still open");
        }
    }
}

/// Accepts connections from root (kubelet) and from this process's own user. A failed accept
/// is retried: no file descriptors are left, or the client has already disconnected.
fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_trusted(&stream) => return Some((Ok(stream), listener)),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    })
}

// req: KUBELET-13
fn is_trusted(stream: &UnixStream) -> bool {
    let peer = stream.peer_cred().map(|credentials| credentials.uid());
    let trusted = peer
        .as_ref()
        .is_ok_and(|uid| *uid == 0 || *uid == geteuid().as_raw());
    if !trusted {
        tracing::warn!(
            ?peer,
            "refused a connection, because its client runs neither as root nor as this process's user"
        );
    }
    trusted
}
