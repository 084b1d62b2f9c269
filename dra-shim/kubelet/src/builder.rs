//! Settings and start of a plugin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dra_common::Advice;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::claim_source::ClaimSource;
use crate::device_health::DeviceHealth;
use crate::driver::Driver;
use crate::names::{MAX_OBJECT_NAME, is_subdomain};
use crate::observer::{NoopObserver, Observer, PanicGuard};
use crate::operations::Operations;
use crate::plugin::Plugin;
use crate::server::{Directories, Endpoints, RegistrationState, Services, SocketError, supervise};
use crate::slices::{DesiredPool, Publisher};

/// Settings of a plugin; [`Plugin::builder`] creates them.
#[must_use]
pub struct PluginBuilder {
    driver: String,
    node: String,
    kubelet_root: PathBuf,
    registry: Option<PathBuf>,
    data: Option<PathBuf>,
    shutdown_grace: Duration,
    health: watch::Receiver<Vec<DeviceHealth>>,
    slices: Option<(kube::Client, watch::Receiver<DesiredPool>)>,
    observer: Arc<dyn Observer>,
    only_v1beta1: bool,
}

/// Error of [`PluginBuilder::start`].
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum StartError {
    /// Driver name that kubelet would refuse.
    #[error("driver name `{0}` is not a DNS subdomain of at most 63 lower-case characters")]
    #[advice(code = "driver-name", hint = "use a name such as driver.example.com")]
    DriverName(String),
    /// Invalid name of a Node.
    #[error("node name `{0}` is not a DNS subdomain of at most 253 lower-case characters")]
    #[advice(
        code = "node-name",
        hint = "pass spec.nodeName of the pod through the downward API"
    )]
    NodeName(String),
    /// Failure to open the sockets.
    #[error(transparent)]
    #[advice(from)]
    Socket(#[from] SocketError),
}

/// Longest `spec.driver` of a `ResourceSlice`.
const MAX_DRIVER_NAME: usize = 63;

// === impl PluginBuilder ===

impl Plugin {
    /// Settings for a plugin of `driver` (its DNS name) on `node` (`spec.nodeName` of
    /// the driver's pod).
    pub fn builder(driver: impl Into<String>, node: impl Into<String>) -> PluginBuilder {
        PluginBuilder {
            driver: driver.into(),
            node: node.into(),
            kubelet_root: PathBuf::from("/var/lib/kubelet"),
            registry: None,
            data: None,
            shutdown_grace: Duration::from_secs(5),
            // The sender is dropped: the list remains empty.
            health: watch::channel(Vec::new()).1,
            slices: None,
            observer: Arc::new(NoopObserver),
            only_v1beta1: false,
        }
    }
}

impl PluginBuilder {
    /// kubelet's `--root-dir`; `/var/lib/kubelet` unless set. The sockets are opened in
    /// its `plugins_registry` and `plugins/DRIVER`. The path must be the same for
    /// kubelet and for this process.
    pub fn kubelet_root(mut self, directory: impl Into<PathBuf>) -> Self {
        self.kubelet_root = directory.into();
        self
    }

    /// Sets the directory of the registration socket, instead of `plugins_registry`.
    pub fn registry_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.registry = Some(directory.into());
        self
    }

    /// Sets the directory of the service socket, instead of `plugins/DRIVER`.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Time for which [`Plugin::shutdown`] waits for attempts in flight before it cancels
    /// them; 5 s unless set. Keep it a few seconds below the pod's
    /// `terminationGracePeriodSeconds`.
    pub const fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// The health of the devices; each value is the complete list. Without it kubelet gets
    /// empty lists.
    ///
    /// Dropping the sender does not change the health: the last list is reported as
    /// current from then on. A driver that stops watching its devices should send
    /// [`Health::Unknown`](crate::Health::Unknown) first.
    pub fn health(mut self, devices: watch::Receiver<Vec<DeviceHealth>>) -> Self {
        self.health = devices;
        self
    }

    /// Publishes the node's devices as `ResourceSlice`s, and restores slices that are
    /// changed or deleted. Of several instances on one data directory only one publishes,
    /// see [`Publication::Standby`](crate::Publication::Standby).
    ///
    /// After the sender is dropped, the last value remains published. To remove the
    /// devices, send [`DesiredPool::Withdrawn`].
    pub fn publish(mut self, client: kube::Client, desired: watch::Receiver<DesiredPool>) -> Self {
        self.slices = Some((client, desired));
        self
    }

    /// Sets the observer, which receives the library's events, for metrics.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Arc::new(PanicGuard::new(observer));
        self
    }

    /// Offers kubelet the service `v1beta1.DRAPlugin` and not `v1.DRAPlugin`.
    ///
    /// A kubelet that supports both versions uses v1 if it is offered. Use this to test
    /// v1beta1 on a real node, or to exclude v1 while debugging. v1beta1 has no share ids.
    pub const fn only_v1beta1(mut self) -> Self {
        self.only_v1beta1 = true;
        self
    }

    /// Opens the sockets and begins to serve and to publish, without waiting for kubelet or
    /// the API server.
    ///
    /// `driver` and `claims` are called from tasks of the current runtime, until the
    /// [`Plugin`] is shut down or dropped.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    ///
    /// # Errors
    ///
    /// The settings are invalid, or the sockets cannot be opened.
    pub fn start<D: Driver, S: ClaimSource>(
        self,
        driver: D,
        claims: S,
    ) -> Result<Plugin, StartError> {
        self.validate()?;
        let directories = self.directories();
        let data = directories.data.clone();
        let observer = self.observer;
        let operations =
            Operations::new(self.driver.clone(), driver, claims, Arc::clone(&observer));
        let state = RegistrationState::pending(Arc::clone(&observer));
        let registration = state.subscribe();
        let drain = operations.drain();
        let other_instances = watch::Sender::new(Vec::new());
        let others = other_instances.subscribe();
        let services = Services {
            directories,
            other_instances,
            operations,
            observer: Arc::clone(&observer),
            health: self.health,
            registration: state,
            only_v1beta1: self.only_v1beta1,
        };
        let endpoints = Endpoints::open(&services)?;
        let stop = CancellationToken::new();
        let supervisor = tokio::spawn(supervise(services, endpoints, stop.clone()));

        let publisher = self.slices.map(|(client, desired)| {
            let publisher = Publisher::new(
                client,
                self.driver,
                self.node,
                data,
                desired,
                Arc::clone(&observer),
            );
            let state = publisher.state();
            let task = tokio::spawn(publisher.run(registration.clone(), stop.clone()));
            (AbortOnDropHandle::new(task), state)
        });
        let (publisher, publication) = publisher.unzip();
        Ok(Plugin {
            registration,
            publication,
            other_instances: others,
            supervisor: Some(supervisor),
            publisher,
            drain,
            shutdown_grace: self.shutdown_grace,
            stop: stop.drop_guard(),
        })
    }

    fn validate(&self) -> Result<(), StartError> {
        if !is_subdomain(&self.driver, MAX_DRIVER_NAME) {
            return Err(StartError::DriverName(self.driver.clone()));
        }
        if !is_subdomain(&self.node, MAX_OBJECT_NAME) {
            return Err(StartError::NodeName(self.node.clone()));
        }
        Ok(())
    }

    fn directories(&self) -> Directories {
        let root = &self.kubelet_root;
        let registry = self.registry.clone();
        let data = self.data.clone();
        Directories {
            driver: self.driver.clone(),
            registry: registry.unwrap_or_else(|| root.join("plugins_registry")),
            data: data.unwrap_or_else(|| root.join("plugins").join(&self.driver)),
        }
    }
}
