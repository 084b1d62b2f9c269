//! Registers a plugin on an accepted connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::options::Options;
use super::runtime_service::RuntimeService;
use super::unsolicited_updates::UnsolicitedUpdates;
use crate::api::ContainerUpdate;
use crate::api::generated::{
    ConfigureResponse, RegisterPluginRequest, SynchronizeRequest, SynchronizeResponse,
};
use crate::events::Events;
use crate::plugin_service::PLUGIN_SERVICE;
use crate::trunk::Trunk;
use crate::wire::ConnectionId;

/// Fact: NRI's default time for a plugin's registration.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// A plugin that is registered with the fake.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Registered {
    /// Two digits.
    pub index: String,
    /// The plugin's name.
    pub name: String,
    /// The plugin's subscription.
    pub events: Events,
    /// The updates in its answer to the synchronization.
    pub updates: Vec<ContainerUpdate>,
}

/// Registers the plugin. The error is the text in NRI's log.
pub(super) async fn register(
    stream: UnixStream,
    options: &Options,
    updates: Arc<UnsolicitedUpdates>,
) -> Result<(Registered, Trunk), String> {
    let (sender, mut registered) = watch::channel(None);
    let service = RuntimeService {
        registered: sender,
        updates,
    };
    let mut trunk = Trunk::open(stream, ConnectionId::Runtime, Arc::new(service));
    let request = tokio::select! {
        request = registered.wait_for(Option::is_some) => {
            request.ok().and_then(|request| request.clone()).unwrap_or_default()
        }
        error = trunk.ended() => return Err(error.to_string()),
        () = tokio::time::sleep(REGISTRATION_TIMEOUT) => {
            return Err("plugin registration timed out".into());
        }
    };
    let events = configure(&trunk, options).await?;
    let RegisterPluginRequest {
        plugin_idx: index,
        plugin_name: name,
        ..
    } = request;
    // Fact: one time-out for all parts together.
    let synchronized = timeout(
        options.request_timeout + options.patience,
        synchronize(&trunk, options),
    );
    let updates = synchronized
        .await
        .map_err(|_| "synchronization timed out")??;
    let registered = Registered {
        index,
        name,
        events,
        updates,
    };
    Ok((registered, trunk))
}

async fn configure(trunk: &Trunk, options: &Options) -> Result<Events, String> {
    let request = options.configuration();
    let configured = trunk.calls().call_patiently(
        PLUGIN_SERVICE,
        "Configure",
        &request,
        options.request_timeout,
        options.patience,
    );
    let configured: ConfigureResponse = configured.await.map_err(|error| error.to_string())?;
    // Fact: no event at all means every event.
    let known = options.release.known_events();
    match Events::from_mask(configured.events) {
        Some(Events::NONE) => Ok(known),
        Some(events) if known.contains(events) => Ok(events),
        _ => Err(format!("invalid plugin events: {:#x}", configured.events)),
    }
}

async fn synchronize(trunk: &Trunk, options: &Options) -> Result<Vec<ContainerUpdate>, String> {
    let per_message = options.objects_per_message.max(1);
    let mut pods = options.pods.chunks(per_message);
    let mut containers = options.containers.chunks(per_message);
    loop {
        let request = SynchronizeRequest {
            pods: pods.next().unwrap_or_default().to_vec(),
            containers: containers.next().unwrap_or_default().to_vec(),
            more: pods.len() > 0 || containers.len() > 0,
        };
        let answer = trunk.calls().call_patiently(
            PLUGIN_SERVICE,
            "Synchronize",
            &request,
            options.request_timeout,
            options.patience,
        );
        let answer: SynchronizeResponse = answer.await.map_err(|error| error.to_string())?;
        if !request.more {
            return Ok(answer.update);
        }
        // Fact: a plugin without this answer cannot join parts.
        if !answer.more || !answer.update.is_empty() {
            return Err("plugin does not handle split sync requests".into());
        }
    }
}
