//! One registration: dial, `GetInfo`, `NotifyRegistrationStatus`.

use std::fmt::Display;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio_util::sync::CancellationToken;

use super::event::Event;
use super::link::Link;
use super::options::{Release, Times};
use super::plugins::{Plugin, validate};
use super::session::Session;
use super::wire::{self, Connection, Wire};
use super::{RegistrationStep, authority, health, raw};
use crate::proto::registration::registration_client::RegistrationClient;
use crate::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};

/// Who was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) driver: String,
    pub(super) endpoint: PathBuf,
}

/// The whole handshake; an error is what kubelet would log, and the next attempt
/// comes after a pause.
///
/// Facts: the plugin is in the table before it is told so, hence may be called
/// before; whoever is refused is told why; a plugin that fails to take note is
/// unregistered again.
pub(super) async fn register(session: &Arc<Session>, socket: &Path) -> Result<Registered, String> {
    let times = &session.world.options.times;
    let mut registry = limit("dial", times.dial, Registry::dial(socket)).await?;
    let info = limit("GetInfo", times.get_info, registry.get_info()).await?;
    session.world.lose(RegistrationStep::GetInfo)?;
    let registered = match admit(session, &info, socket) {
        Ok(registered) => registered,
        Err(reason) => {
            let refusal = RegistrationStatus {
                plugin_registered: false,
                error: reason.clone(),
            };
            // Whether the plugin minds or not, it is refused.
            let _ = limit("Notify", times.notify, registry.notify(refusal)).await;
            return Err(reason);
        }
    };
    let success = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    let noted = limit("Notify", times.notify, registry.notify(success)).await;
    if let Err(reason) = noted.and_then(|()| session.world.lose(RegistrationStep::Notify)) {
        session.remove(&registered);
        return Err(reason);
    }
    Ok(registered)
}

async fn limit<T, E: Display>(
    what: &str,
    time: Duration,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(time, step).await {
        Ok(result) => result.map_err(|error| format!("{what} failed: {error}")),
        Err(_) => Err(format!("{what} took longer than {time:?}")),
    }
}

/// Puts the plugin into the table, begins to connect and to listen to its health.
fn admit(session: &Arc<Session>, info: &PluginInfo, socket: &Path) -> Result<Registered, String> {
    let service = validate(info)?;
    // Fact: no endpoint means the registration socket itself.
    let endpoint = match info.endpoint.as_str() {
        "" => socket.to_owned(),
        endpoint => PathBuf::from(endpoint),
    };
    let options = &session.world.options;
    let dialled = match options.release {
        Release::V1_35 => authority::of_path(&endpoint),
        Release::V1_36 => authority::LOCALHOST.to_owned(),
    };
    let origin = wire::origin(&dialled).ok_or_else(|| {
        format!(
            "no call reaches {}: without an @ in the name, h2 refuses it",
            endpoint.display()
        )
    })?;
    let registered = Registered {
        driver: info.name.clone(),
        endpoint: endpoint.clone(),
    };
    let link = Arc::new(open(session, &registered, origin, &options.times));
    let listening = CancellationToken::new();
    let plugin = Plugin {
        driver: info.name.clone(),
        endpoint,
        service,
        link: Arc::clone(&link),
        _listening: listening.clone().drop_guard(),
    };
    session.add(plugin)?;
    let stream = health::listen(Arc::downgrade(session), info.name.clone(), link);
    session.spawn(async move {
        listening.run_until_cancelled_owned(stream).await;
    });
    Ok(registered)
}

fn open(session: &Session, registered: &Registered, origin: http::Uri, times: &Times) -> Link {
    let Registered { driver, endpoint } = registered.clone();
    let (log, connections) = (session.world.log.clone(), session.connections.clone());
    Link::open(&registered.endpoint, origin, times, move |connected| {
        let (driver, endpoint) = (driver.clone(), endpoint.clone());
        log.push(if connected {
            Event::Connected { driver, endpoint }
        } else {
            Event::Disconnected { driver, endpoint }
        });
        connections.send_modify(|()| {});
    })
}

/// The plugin's registration service, dialled by its bare path.
enum Registry {
    /// One connection for the handshake.
    Parsed {
        client: RegistrationClient<Wire>,
        /// Ends with the handshake.
        _connection: Connection,
    },
    /// The authority is none that a URI can hold.
    Raw { socket: PathBuf, authority: String },
}

impl Registry {
    async fn dial(socket: &Path) -> std::io::Result<Self> {
        let authority = authority::of_path(socket);
        let Some(origin) = wire::origin(&authority) else {
            let socket = socket.to_owned();
            return Ok(Self::Raw { socket, authority });
        };
        let (wire, connection) = wire::connect(socket, origin).await?;
        let origin = wire.origin.clone();
        let client = RegistrationClient::with_origin(wire, origin);
        Ok(Self::Parsed {
            client,
            _connection: connection,
        })
    }

    async fn get_info(&mut self) -> Result<PluginInfo, String> {
        match self {
            Self::Parsed { client, .. } => {
                let answer = client.get_info(InfoRequest {}).await;
                answer.map(tonic::Response::into_inner).map_err(grpc)
            }
            Self::Raw { socket, authority } => {
                raw_call(socket, authority, "GetInfo", &InfoRequest {}).await
            }
        }
    }

    async fn notify(&mut self, status: RegistrationStatus) -> Result<(), String> {
        match self {
            Self::Parsed { client, .. } => {
                let answer = client.notify_registration_status(status).await;
                answer.map(drop).map_err(grpc)
            }
            Self::Raw { socket, authority } => {
                let method = "NotifyRegistrationStatus";
                let RegistrationStatusResponse {} =
                    raw_call(socket, authority, method, &status).await?;
                Ok(())
            }
        }
    }
}

async fn raw_call<A: Message + Default>(
    socket: &Path,
    authority: &str,
    method: &str,
    message: &impl Message,
) -> Result<A, String> {
    let method = format!("/pluginregistration.Registration/{method}");
    let message = message.encode_to_vec();
    let answer = raw::unary(socket, authority, &method, &message).await?;
    A::decode(answer.as_slice()).map_err(|error| error.to_string())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` wants"
)]
pub(super) fn grpc(status: tonic::Status) -> String {
    format!("rpc error: {:?}: {}", status.code(), status.message())
}
