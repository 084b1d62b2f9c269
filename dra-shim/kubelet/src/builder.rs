//! The settings of a plugin, and its start.

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

/// Settings of a plugin, see [`Plugin::builder`].
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

/// Why a plugin did not start.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum StartError {
    /// kubelet would refuse this driver name.
    #[error("driver name `{0}` is not a DNS subdomain of at most 63 lower-case characters")]
    #[advice(code = "driver-name", hint = "use a name such as driver.example.com")]
    DriverName(String),
    /// No Node can have this name.
    #[error("node name `{0}` is not a DNS subdomain of at most 253 lower-case characters")]
    #[advice(
        code = "node-name",
        hint = "pass the pod's spec.nodeName, as the downward API has it"
    )]
    NodeName(String),
    /// The sockets cannot be opened.
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
            // Without a sender: an empty list forever.
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

    /// Overrides the directory of the registration socket.
    pub fn registry_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.registry = Some(directory.into());
        self
    }

    /// Overrides the directory of the service socket.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// How long [`Plugin::shutdown`] waits for attempts in flight before it cancels
    /// them; 5 s unless set. Keep it a few seconds below the pod's
    /// `terminationGracePeriodSeconds`.
    pub const fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// The health of the devices, always as the complete list. Without it kubelet gets
    /// empty lists.
    ///
    /// Dropping the sender does not change the health: the last list is reported as
    /// current from then on. A driver that stops watching its devices should send
    /// [`Health::Unknown`](crate::Health::Unknown) first.
    pub fn health(mut self, devices: watch::Receiver<Vec<DeviceHealth>>) -> Self {
        self.health = devices;
        self
    }

    /// Publishes the node's devices as `ResourceSlice`s, and restores them when someone
    /// changes or deletes them. Of several instances on one data directory one does it,
    /// see [`Publication::Standby`](crate::Publication::Standby).
    ///
    /// Dropping the sender fixes the last value, which stays published. To remove the
    /// devices, send [`DesiredPool::Withdrawn`].
    pub fn publish(mut self, client: kube::Client, desired: watch::Receiver<DesiredPool>) -> Self {
        self.slices = Some((client, desired));
        self
    }

    /// Receives an event for everything that the library does, for metrics.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Arc::new(PanicGuard::new(observer));
        self
    }

    /// Offers kubelet the service `v1beta1.DRAPlugin` and not `v1.DRAPlugin`.
    ///
    /// kubelet uses the newer version wherever it is offered, so without this the older
    /// one is never used by a kubelet that knows both. It is for testing the older
    /// version on a real node, and for ruling out the newer one while debugging. The
    /// older version cannot carry share ids.
    pub const fn only_v1beta1(mut self) -> Self {
        self.only_v1beta1 = true;
        self
    }

    /// Opens the sockets and begins to serve and to publish. It does not wait for kubelet
    /// or the API server.
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
    /// Only for invalid settings and directories that cannot be used.
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
