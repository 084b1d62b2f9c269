//! One connection: registers, is configured and synchronized, serves events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::api::generated::{Empty, RegisterPluginRequest};
use crate::error::ConnectionError;
use crate::identity::Identity;
use crate::plugin::Plugin;
use crate::plugin_service::{Phase, PluginService};
use crate::state::State;
use crate::trunk::{CallError, Calls, Trunk};
use crate::updates::RUNTIME_SERVICE;
use crate::wire::ConnectionId;

/// How long the runtime may take to answer a registration, and then to configure. It handles
/// one plugin after the other and allows each five seconds by default.
const STEP: Duration = Duration::from_secs(15);

/// Time limit of the last answers: more than NRI's time-out of two seconds.
const DRAIN: Duration = Duration::from_secs(3);

/// How long the runtime may take to close a connection after the plugin's refusal.
const REFUSED: Duration = Duration::from_secs(1);

/// The NRI version of the protocol, for the runtime's log.
const NRI_VERSION: &str = "v0.12.5";

/// State shared by all connections of a service.
pub(crate) struct Shared<P> {
    pub(crate) plugin: Arc<P>,
    pub(crate) identity: Identity,
    pub(crate) state: watch::Sender<State>,
    pub(crate) calls: watch::Sender<Option<Calls>>,
    pub(crate) stop: CancellationToken,
}

/// The end of a connection.
pub(crate) struct End {
    /// `None`: the service is shut down.
    pub(crate) error: Option<Arc<ConnectionError>>,
    /// How long the plugin was registered.
    pub(crate) registered: Duration,
}

/// Runs one connection until it ends.
pub(crate) async fn run<P: Plugin>(shared: &Shared<P>, stream: UnixStream) -> End {
    let Identity { late, .. } = shared.identity;
    let plugin = Arc::clone(&shared.plugin);
    let service = Arc::new(PluginService::new(
        plugin,
        shared.identity.to_string(),
        late,
    ));
    let phase = service.phase();
    let mut trunk = Trunk::open(stream, ConnectionId::Plugin, service);
    let calls = trunk.calls().clone();
    let mut since = None;
    let error = tokio::select! {
        error = establish(shared, calls, phase.clone(), &mut since) => Some(error),
        error = trunk.ended() => Some(ConnectionError::from(error)),
        () = shared.stop.cancelled() => None,
    };
    shared.calls.send_replace(None);
    let registered = since.map_or(Duration::ZERO, |since: Instant| since.elapsed());
    let Some(error) = error else {
        if timeout(DRAIN, trunk.drain()).await.is_err() {
            tracing::warn!(
                "shutting down, although calls from the container runtime are still unanswered"
            );
        }
        trunk.close().await;
        return End {
            error: None,
            registered,
        };
    };
    trunk.close().await;
    // If the plugin has failed, that is why the runtime closed the connection.
    let failed = match &*phase.borrow() {
        Phase::Failed(error) => Some(Arc::clone(error)),
        _ => None,
    };
    End {
        error: Some(failed.unwrap_or_else(|| Arc::new(error))),
        registered,
    }
}

/// Registers, and waits for Configure and Synchronize. Returns only on failure.
// req: NRI-1
async fn establish<P: Plugin>(
    shared: &Shared<P>,
    calls: Calls,
    mut phase: watch::Receiver<Phase>,
    since: &mut Option<Instant>,
) -> ConnectionError {
    if let Err(error) = register(&shared.identity, &calls).await {
        return error;
    }
    let configured = phase.wait_for(|phase| !matches!(phase, Phase::Connected));
    if timeout(STEP, configured).await.is_err() {
        return ConnectionError::Unresponsive {
            step: "configure the plugin",
            limit: STEP,
        };
    }
    // No limit: containerd synchronizes no plugin while it creates containers.
    let is_decided = |phase: &Phase| matches!(phase, Phase::Synchronized(_) | Phase::Failed(_));
    let decided = phase.wait_for(is_decided).await.map(|phase| phase.clone());
    if let Ok(Phase::Failed(_)) = decided {
        // The runtime closes the connection after reading the refusal.
        tokio::time::sleep(REFUSED).await;
        return ConnectionError::Closed;
    }
    if let Ok(Phase::Synchronized(runtime)) = decided {
        tracing::info!(
            runtime = runtime.name,
            version = runtime.version,
            nri = runtime.nri_version,
            events = %runtime.events,
            "registered with the container runtime"
        );
        if !runtime.unknown_events.is_empty() {
            tracing::warn!(
                events = %runtime.unknown_events,
                "the container runtime does not support these events, so the plugin never receives them"
            );
        }
        *since = Some(Instant::now());
        shared.calls.send_replace(Some(calls));
        shared.state.send_replace(State::Registered(runtime));
    }
    std::future::pending().await
}

// req: NRI-9
async fn register(identity: &Identity, calls: &Calls) -> Result<(), ConnectionError> {
    let request = RegisterPluginRequest {
        plugin_name: identity.name.clone(),
        plugin_idx: identity.index.clone(),
        nri_version: NRI_VERSION.to_owned(),
    };
    let registered = calls.call::<Empty>(RUNTIME_SERVICE, "RegisterPlugin", &request, STEP);
    match registered.await {
        Ok(Empty {}) => Ok(()),
        // The trunk's error has the reason.
        Err(CallError::Closed) => std::future::pending().await,
        Err(CallError::TimedOut(limit)) => Err(ConnectionError::Unresponsive {
            step: "respond to the registration",
            limit,
        }),
        Err(error) => Err(ConnectionError::Registration(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sent_version_is_that_of_the_protocol_definition() {
        let vendored = include_str!("../proto/README.md");
        assert!(vendored.contains(&format!(
            "`github.com/containerd/nri` {} ",
            super::NRI_VERSION
        )));
    }
}
