//! One registration of a plugin: dial, `GetInfo`, `NotifyRegistrationStatus`.

use std::fmt::Display;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::channel::Channel;
use super::event::Event;
use super::faults::RegistrationStep;
use super::http2::{self, Connection, Transport, rpc_error};
use super::options::{Release, Times};
use super::plugins::{Plugin, Registered, validate};
use super::process::Process;
use super::{authority, health};
use crate::proto::registration::registration_client::RegistrationClient;
use crate::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};

/// Performs the whole handshake. The error is kubelet's log message; kubelet retries after a
/// pause.
///
/// Facts: the plugin is added to the table before it is notified, so it may be called before
/// that. A refused plugin gets the reason. A plugin that does not acknowledge the notification
/// is removed again.
pub(super) async fn register(process: &Arc<Process>, socket: &Path) -> Result<Registered, String> {
    let times = &process.node.options.times;
    let mut connection = limit("dial", times.dial, RegistrationConnection::dial(socket)).await?;
    let info = limit("GetInfo", times.get_info, connection.get_info()).await?;
    process.node.lose(RegistrationStep::GetInfo)?;
    let registered = match admit(process, &info, socket) {
        Ok(registered) => registered,
        Err(reason) => {
            let refusal = RegistrationStatus {
                plugin_registered: false,
                error: reason.clone(),
            };
            // The answer to a refusal does not matter.
            let _ = limit("Notify", times.notify, connection.notify(refusal)).await;
            return Err(reason);
        }
    };
    let success = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    let notified = limit("Notify", times.notify, connection.notify(success)).await;
    if let Err(reason) = notified.and_then(|()| process.node.lose(RegistrationStep::Notify)) {
        process.remove(&registered);
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

/// Adds the plugin to the table, and begins to connect and to watch its health.
fn admit(process: &Arc<Process>, info: &PluginInfo, socket: &Path) -> Result<Registered, String> {
    let service = validate(info)?;
    // Fact: without an endpoint, the registration socket is the service socket too.
    let endpoint = match info.endpoint.as_str() {
        "" => socket.to_owned(),
        endpoint => PathBuf::from(endpoint),
    };
    let options = &process.node.options;
    let dialled = match options.release {
        Release::V1_35 => authority::from_path(&endpoint),
        Release::V1_36 => authority::LOCALHOST.to_owned(),
    };
    let origin = origin(&dialled, &endpoint)?;
    let registered = Registered {
        driver: info.name.clone(),
        endpoint: endpoint.clone(),
    };
    let channel = Arc::new(open(process, &registered, origin, &options.times));
    let listening = CancellationToken::new();
    let plugin = Plugin {
        driver: info.name.clone(),
        endpoint,
        service,
        channel: Arc::clone(&channel),
        _listening: listening.clone().drop_guard(),
    };
    process.add(plugin)?;
    let stream = health::listen(Arc::downgrade(process), info.name.clone(), channel);
    process.spawn(async move {
        listening.run_until_cancelled_owned(stream).await;
    });
    Ok(registered)
}

fn open(process: &Process, registered: &Registered, origin: http::Uri, times: &Times) -> Channel {
    let Registered { driver, endpoint } = registered.clone();
    let (log, connections) = (process.node.log.clone(), process.connections.clone());
    Channel::open(&registered.endpoint, origin, times, move |connected| {
        let (driver, endpoint) = (driver.clone(), endpoint.clone());
        log.push(if connected {
            Event::Connected { driver, endpoint }
        } else {
            Event::Disconnected { driver, endpoint }
        });
        connections.send_modify(|()| {});
    })
}

/// The handshake's connection to the plugin's registration service, dialled by its bare path.
struct RegistrationConnection {
    client: RegistrationClient<Transport>,
    _connection: Connection,
}

impl RegistrationConnection {
    async fn dial(socket: &Path) -> Result<Self, String> {
        let origin = origin(&authority::from_path(socket), socket)?;
        let connected = http2::connect(socket, origin).await;
        let (transport, connection) = connected.map_err(|error| error.to_string())?;
        let origin = transport.origin.clone();
        Ok(Self {
            client: RegistrationClient::with_origin(transport, origin),
            _connection: connection,
        })
    }

    async fn get_info(&mut self) -> Result<PluginInfo, String> {
        let answer = self.client.get_info(InfoRequest {}).await;
        let answer = answer.map_err(|status| rpc_error(&status))?;
        Ok(answer.into_inner())
    }

    async fn notify(&mut self, status: RegistrationStatus) -> Result<(), String> {
        let answer = self.client.notify_registration_status(status).await;
        answer.map(drop).map_err(|status| rpc_error(&status))
    }
}

/// Fact: a server based on `h2` resets a stream whose authority is not valid in a URI.
fn origin(authority: &str, socket: &Path) -> Result<http::Uri, String> {
    http2::origin(authority).ok_or_else(|| {
        format!(
            "no call reaches {}: h2 rejects the path because the file name has no @",
            socket.display()
        )
    })
}
