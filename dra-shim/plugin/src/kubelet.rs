//! Serves kubelet: opens the sockets, follows registration and publication, shuts down.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::{Events, Heartbeat, ReadinessCondition, StartError};
use dra_kubelet::{
    DesiredPool, DeviceHealth, Driver, KubeClaims, Plugin, Publication, Registration,
};
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::call_observer::CallObserver;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::second_plugin::SecondPluginAlarm;
use crate::unsupported_fields::UnsupportedFields;

/// How long kubelet's directories may be missing at start.
const SOCKETS_WITHIN: Duration = Duration::from_secs(30);

/// Registration takes a second at most. kubelet watches the directory that it found at its own start.
pub(crate) const NOT_REGISTERED: &str = "kubelet has not registered the plugin yet; if this \
     persists, kubelet's plugins_registry directory may have been deleted: restart kubelet";

/// The plugin's server for kubelet.
pub(crate) struct KubeletServer<D> {
    pub(crate) driver_name: &'static str,
    pub(crate) node_name: String,
    pub(crate) registry_dir: PathBuf,
    pub(crate) data_dir: PathBuf,
    pub(crate) client: Client,
    pub(crate) driver: D,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) in_flight: InFlight,
    pub(crate) events: Events,
    /// The desired slice of the node.
    pub(crate) desired: watch::Receiver<DesiredPool>,
    /// The devices' health, for kubelet's health stream.
    pub(crate) health: watch::Receiver<Vec<DeviceHealth>>,
    pub(crate) conditions: KubeletConditions,
    pub(crate) second_plugin: SecondPluginAlarm,
    /// Heartbeat of the slices' publisher, which ends only with the plugin.
    pub(crate) publisher: Heartbeat,
}

/// Readiness conditions about kubelet and the API server.
#[derive(Clone)]
pub(crate) struct KubeletConditions {
    pub(crate) api_server: ReadinessCondition,
    pub(crate) registered: ReadinessCondition,
    pub(crate) published: ReadinessCondition,
    /// Gets the device fields that the API server has dropped.
    pub(crate) unsupported_fields: watch::Sender<UnsupportedFields>,
}

// === impl KubeletServer ===

impl<D: Driver + Clone> KubeletServer<D> {
    /// Serves kubelet until `shutdown`.
    ///
    /// # Errors
    /// The sockets cannot be opened, or are lost permanently.
    pub(crate) async fn serve(self, shutdown: &CancellationToken) -> Result<(), StartError> {
        let mut plugin = self.start(shutdown).await?;
        let conditions = self.conditions.clone();
        self.publisher.idle();
        let following = conditions.follow(
            plugin.registration(),
            plugin.publication(),
            Arc::clone(&self.metrics),
        );
        let publisher = self.publisher;
        let conditions = tokio::spawn(async move {
            following.await;
            drop(publisher); // the publisher has ended before the plugin
        });
        let second = tokio::spawn(self.second_plugin.follow(plugin.other_instances()));
        let ended = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            error = plugin.failed() => Err(StartError::new(&error, error.hint())),
        };
        conditions.abort();
        second.abort();
        plugin.shutdown().await;
        ended
    }

    fn observer(&self) -> CallObserver {
        CallObserver {
            metrics: Arc::clone(&self.metrics),
            in_flight: self.in_flight.clone(),
            events: self.events.clone(),
        }
    }

    /// Opens the sockets. Directories may still be missing while kubelet starts.
    async fn start(&self, shutdown: &CancellationToken) -> Result<Plugin, StartError> {
        let until = Instant::now() + SOCKETS_WITHIN;
        loop {
            let started = Plugin::builder(self.driver_name, self.node_name.as_str())
                .registry_dir(&self.registry_dir)
                .data_dir(&self.data_dir)
                .observer(self.observer())
                .health(self.health.clone())
                .publish(self.client.clone(), self.desired.clone())
                .start(self.driver.clone(), KubeClaims::new(self.client.clone()));
            match started {
                Ok(plugin) => return Ok(plugin),
                Err(error) if Instant::now() < until && !shutdown.is_cancelled() => {
                    warn!(%error, "cannot open the sockets for kubelet yet; retrying");
                    sleep(Duration::from_secs(1)).await;
                }
                Err(error) => return Err(StartError::new(&error, error.hint())),
            }
        }
    }
}

// === impl KubeletConditions ===

impl KubeletConditions {
    /// Keeps conditions and metrics up to date until the plugin ends.
    async fn follow(
        self,
        mut registration: watch::Receiver<Registration>,
        publication: Option<watch::Receiver<Publication>>,
        metrics: Arc<Metrics>,
    ) {
        let Some(mut publication) = publication else {
            return;
        };
        loop {
            self.set_registered(&registration.borrow_and_update());
            self.set_published(&publication.borrow_and_update());
            metrics.publication_changed(&publication.borrow());
            let changed = tokio::select! {
                changed = registration.changed() => changed,
                changed = publication.changed() => changed,
            };
            if changed.is_err() {
                return; // the plugin has ended
            }
        }
    }

    fn set_registered(&self, registration: &Registration) {
        match registration {
            Registration::Registered => self.registered.set_met(),
            Registration::Refused { reason } => {
                let reason = format!("kubelet refused the registration: {reason}");
                self.registered.set_unmet(&reason);
            }
            Registration::Pending => self.registered.set_unmet(NOT_REGISTERED),
        }
    }

    fn set_published(&self, publication: &Publication) {
        match publication {
            Publication::Published { dropped, .. } => {
                self.published.set_met();
                let lacks = |name| dropped.iter().any(|field| field.field == name);
                self.unsupported_fields.send_modify(|unsupported_fields| {
                    unsupported_fields.taints |= lacks("taints");
                    unsupported_fields.sharing |= lacks("allowMultipleAllocations");
                });
            }
            // In a rolling update the other instance may be the one that publishes.
            Publication::Withdrawn | Publication::Standby => self.published.set_met(),
            // The published slice stays, and another instance could not do better.
            Publication::Failing { .. } if !self.api_server.is_met() => {}
            Publication::Failing { reason, .. } => self.published.set_unmet(reason),
            Publication::Pending => {
                let reason = "the node's devices are not published yet";
                self.published.set_unmet(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use daemon_runtime::Readiness;
    use dra_kubelet::DroppedField;

    use super::*;

    #[test]
    fn relevant_fields_that_the_api_server_drops_are_remembered() {
        let readiness = Readiness::default();
        let (sender, unsupported_fields) = watch::channel(UnsupportedFields::default());
        let conditions = KubeletConditions {
            api_server: readiness.add_start_condition("api-server", "not yet"),
            registered: readiness.add_condition("kubelet", "not yet"),
            published: readiness.add_condition("resource-slice", "not yet"),
            unsupported_fields: sender,
        };
        let publish = |field: &str| {
            let dropped = DroppedField {
                field: field.to_owned(),
                devices: vec!["channel-0".to_owned()],
                gate: None,
            };
            conditions.set_published(&Publication::Published {
                slices: Vec::new(),
                generation: 1,
                dropped: vec![dropped],
            });
        };
        let seen = || {
            (
                unsupported_fields.borrow().taints,
                unsupported_fields.borrow().sharing,
            )
        };
        publish("bindsToNode");
        assert_eq!(seen(), (false, false));
        publish("taints");
        assert_eq!(seen(), (true, false));
        // The withdrawal that follows must not reset this.
        conditions.set_published(&Publication::Withdrawn);
        assert_eq!(seen(), (true, false));
        publish("allowMultipleAllocations");
        assert_eq!(seen(), (true, true));
    }

    fn failing(reason: &str) -> Publication {
        Publication::Failing {
            code: "slice-request",
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn failed_writes_of_slices_count_unless_the_api_server_is_unreachable() {
        let readiness = Readiness::default();
        let conditions = KubeletConditions {
            api_server: readiness.add_start_condition("api-server", "not reached"),
            registered: readiness.add_condition("kubelet", "not registered"),
            published: readiness.add_condition("resource-slice", "not published"),
            unsupported_fields: watch::channel(UnsupportedFields::default()).0,
        };
        conditions.set_registered(&Registration::Registered);
        conditions.api_server.set_met();
        conditions.set_published(&Publication::Withdrawn);
        assert_eq!(readiness.unmet(), []);

        conditions.api_server.set_unmet("connection refused");
        conditions.set_published(&failing("connection refused"));
        assert_eq!(readiness.unmet(), [], "ready during an outage");

        conditions.api_server.set_met();
        conditions.set_published(&failing("forbidden"));
        let forbidden = ("resource-slice", "forbidden".to_owned());
        assert_eq!(readiness.unmet(), [forbidden]);
    }
}
