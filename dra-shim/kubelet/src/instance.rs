//! One opening of the two sockets and the servers behind them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use nix::unistd::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::driver::Driver;
use crate::health::{DeviceHealth, HealthService};
use crate::observer::Observer;
use crate::proto::health::dra_resource_health_server::DraResourceHealthServer;
use crate::proto::registration::PluginInfo;
use crate::proto::registration::registration_server::RegistrationServer;
use crate::proto::{PLUGIN_TYPE, supported, v1, v1beta1};
use crate::registration::{Registrar, Verdict};
use crate::rpc::Dra;
use crate::sockets::{Directories, SocketError, SocketFile};
use crate::source::ClaimSource;
use crate::work::Work;

/// How often the socket files are looked at. kubelet stops calling at once when
/// they go, so this bounds the gap that a careless cleaner causes.
const LOOK: Duration = Duration::from_secs(2);
/// What answers that are ready get to leave through closing servers.
const FLUSH: Duration = Duration::from_secs(1);

/// What outlives an instance.
pub(crate) struct Common<D, S> {
    pub(crate) directories: Directories,
    pub(crate) work: Work<D, S>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) health: watch::Receiver<Vec<DeviceHealth>>,
    pub(crate) verdict: Verdict,
    /// Neither listed nor served is the newer version then.
    pub(crate) only_v1beta1: bool,
}

/// Listening sockets. Dropped, it stops serving and removes its files.
pub(crate) struct Instance {
    /// Dropped before `service`: kubelet unregisters first.
    registration: SocketFile,
    service: SocketFile,
    servers: JoinSet<Result<(), tonic::transport::Error>>,
    stop: CancellationToken,
}

impl Instance {
    /// The service listens before the registration socket exists: kubelet may call
    /// it right after registration.
    pub(crate) fn open<D: Driver, S: ClaimSource>(
        common: &Common<D, S>,
    ) -> Result<Self, SocketError> {
        let names = common.directories.names()?;
        let stop = CancellationToken::new();
        let mut servers = JoinSet::new();

        let (service, listener) = SocketFile::open(&names.service)?;
        let health = HealthService {
            devices: common.health.clone(),
            observer: Arc::clone(&common.observer),
            stop: stop.clone(),
        };
        let work = || Dra(common.work.clone());
        let newer = (!common.only_v1beta1)
            .then(work)
            .map(v1::dra_plugin_server::DraPluginServer::new);
        let dra = Server::builder()
            .add_optional_service(newer)
            .add_service(v1beta1::dra_plugin_server::DraPluginServer::new(work()))
            .add_service(DraResourceHealthServer::new(health));
        let stopped = stop.clone().cancelled_owned();
        servers.spawn(dra.serve_with_incoming_shutdown(accepted(listener), stopped));

        let (registration, listener) = SocketFile::open(&names.registration)?;
        let registrar = Registrar {
            info: PluginInfo {
                r#type: PLUGIN_TYPE.to_owned(),
                name: common.directories.driver.clone(),
                endpoint: names.service.to_string_lossy().into_owned(),
                supported_versions: supported(common.only_v1beta1),
            },
            verdict: common.verdict.clone(),
        };
        let registry = Server::builder().add_service(RegistrationServer::new(registrar));
        let stopped = stop.clone().cancelled_owned();
        servers.spawn(registry.serve_with_incoming_shutdown(accepted(listener), stopped));

        tracing::info!(registration = %registration.path().display(), service = %service.path().display(), "sockets open");
        Ok(Self {
            registration,
            service,
            servers,
            stop,
        })
    }

    /// Ends when kubelet can no longer reach the plugin here, and says why.
    pub(crate) async fn lost(&mut self) -> String {
        loop {
            tokio::select! {
                _ = self.servers.join_next() => return "a server ended".to_owned(),
                () = tokio::time::sleep(LOOK) => {}
            }
            let files = [&self.registration, &self.service];
            if let Some(file) = files.into_iter().find(|file| !file.is_there()) {
                return format!("{} was removed or replaced", file.path().display());
            }
        }
    }

    /// Bounded by [`FLUSH`]: a client that never finishes its connection's preface
    /// would hold a graceful shutdown forever.
    pub(crate) async fn close(mut self) {
        self.stop.cancel();
        let ended = async { while self.servers.join_next().await.is_some() {} };
        if tokio::time::timeout(FLUSH, ended).await.is_err() {
            tracing::debug!("connections were still open and are cut");
        }
    }
}

/// Connections from root, which kubelet is, or from our own user. An accept error
/// (no descriptors left, a client already gone) passes.
fn accepted(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
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

fn is_trusted(stream: &UnixStream) -> bool {
    let peer = stream.peer_cred().map(|credentials| credentials.uid());
    let trusted = peer
        .as_ref()
        .is_ok_and(|uid| *uid == 0 || *uid == geteuid().as_raw());
    if !trusted {
        tracing::warn!(?peer, "refused a connection that is not kubelet's");
    }
    trusted
}
