//! A plugin's settings, and its start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::driver::Driver;
use crate::health::DeviceHealth;
use crate::instance::{Common, Instance};
use crate::names::is_subdomain;
use crate::observer::{Deaf, Observer, Shielded};
use crate::plugin::Plugin;
use crate::registration::Verdict;
use crate::slices::{Desired, Publisher};
use crate::sockets::{Directories, SocketError};
use crate::source::ClaimSource;
use crate::supervisor::supervise;
use crate::work::Work;

/// Settings of a plugin, see [`Plugin::builder`].
#[must_use]
pub struct Builder {
    driver: String,
    node: String,
    kubelet_root: PathBuf,
    registry: Option<PathBuf>,
    data: Option<PathBuf>,
    grace: Duration,
    health: watch::Receiver<Vec<DeviceHealth>>,
    slices: Option<(kube::Client, watch::Receiver<Desired>)>,
    observer: Arc<dyn Observer>,
    only_v1beta1: bool,
}

/// Why a plugin did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// kubelet would refuse it.
    #[error("driver name `{0}` is not a DNS subdomain of at most 63 lower-case characters")]
    DriverName(String),
    /// No node can have this name.
    #[error("node name `{0}` is not a DNS subdomain of at most 253 lower-case characters")]
    NodeName(String),
    /// The sockets.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// `spec.driver` of a `ResourceSlice`.
const MAX_DRIVER_NAME: usize = 63;
/// `metadata.name` of a Node.
const MAX_NODE_NAME: usize = 253;

impl StartError {
    /// A stable word for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::DriverName(_) => "driver-name",
            Self::NodeName(_) => "node-name",
            Self::Socket(error) => error.code(),
        }
    }

    /// What mends it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::DriverName(_) => "use a name such as driver.example.com",
            Self::NodeName(_) => "pass the pod's spec.nodeName, as the downward API has it",
            Self::Socket(error) => error.hint(),
        }
    }
}

impl Builder {
    pub(crate) fn new(driver: String, node: String) -> Self {
        Self {
            driver,
            node,
            kubelet_root: PathBuf::from("/var/lib/kubelet"),
            registry: None,
            data: None,
            grace: Duration::from_secs(5),
            // Without a sender: an empty list, forever.
            health: watch::channel(Vec::new()).1,
            slices: None,
            observer: Arc::new(Deaf),
            only_v1beta1: false,
        }
    }

    /// kubelet's `--root-dir`, `/var/lib/kubelet` unless set. `plugins_registry` and
    /// `plugins/DRIVER` follow from it. It must be the same path for kubelet and
    /// for this process.
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

    /// What [`Plugin::shutdown`] leaves to work in flight: 5 s unless set. Keep it
    /// a few seconds below the pod's `terminationGracePeriodSeconds`.
    pub const fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Where the devices' health is read from: always the complete list. Without
    /// it kubelet sees a stream of empty lists.
    ///
    /// A dropped sender is not a verdict: the last list goes on being reported as
    /// current. Whoever may stop watching devices sends
    /// [`Health::Unknown`](crate::Health::Unknown) first.
    pub fn health(mut self, devices: watch::Receiver<Vec<DeviceHealth>>) -> Self {
        self.health = devices;
        self
    }

    /// Publishes the node's devices as `ResourceSlice`s, and keeps them so. Of several
    /// instances on one data directory one does it, see [`Publication::Standby`](crate::Publication::Standby).
    ///
    /// A dropped sender fixes the last value: it goes on being published, and is
    /// restored when someone changes or deletes it. To take the devices away, send
    /// [`Desired::Withdrawn`].
    pub fn publish(mut self, client: kube::Client, desired: watch::Receiver<Desired>) -> Self {
        self.slices = Some((client, desired));
        self
    }

    /// Who hears of what happens inside, for metrics; nobody unless set.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Arc::new(Shielded::new(observer));
        self
    }

    /// Offers kubelet the service `v1beta1.DRAPlugin` and not its successor.
    ///
    /// kubelet takes the newer version wherever it is offered, so without this the
    /// older one never runs on a kubelet that knows both: it is for tests of the
    /// older version on a real node, and for ruling the newer one out when looking
    /// for a fault. The older version cannot carry share ids.
    pub const fn only_v1beta1(mut self) -> Self {
        self.only_v1beta1 = true;
        self
    }

    /// Opens the sockets and begins to serve and to publish. It waits for nothing
    /// else: neither for kubelet nor for the API server.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    ///
    /// # Errors
    ///
    /// Only what is wrong with the settings or the directories.
    pub fn start<D: Driver, S: ClaimSource>(
        self,
        driver: D,
        claims: S,
    ) -> Result<Plugin, StartError> {
        if !is_subdomain(&self.driver, MAX_DRIVER_NAME) {
            return Err(StartError::DriverName(self.driver));
        }
        if !is_subdomain(&self.node, MAX_NODE_NAME) {
            return Err(StartError::NodeName(self.node));
        }
        let root = self.kubelet_root;
        let directories = Directories {
            registry: self
                .registry
                .unwrap_or_else(|| root.join("plugins_registry")),
            data: self
                .data
                .unwrap_or_else(|| root.join("plugins").join(&self.driver)),
            driver: self.driver.clone(),
        };
        let data = directories.data.clone();
        let observer = self.observer;
        let work = Work::new(self.driver.clone(), driver, claims, Arc::clone(&observer));
        let verdict = Verdict::pending(Arc::clone(&observer));
        let registration = verdict.subscribe();
        let common = Common {
            directories,
            work: work.clone(),
            observer: Arc::clone(&observer),
            health: self.health,
            verdict,
            only_v1beta1: self.only_v1beta1,
        };
        let instance = Instance::open(&common)?;
        let stop = CancellationToken::new();
        let supervisor = tokio::spawn(supervise(common, instance, stop.clone()));

        let publishing = self.slices.map(|(client, desired)| {
            let publisher = Publisher::new(
                client,
                self.driver,
                self.node,
                data,
                desired,
                Arc::clone(&observer),
            );
            let state = publisher.state();
            let publishing = tokio::spawn(publisher.run(registration.clone(), stop.clone()));
            (AbortOnDropHandle::new(publishing), state)
        });
        let (publisher, publication) = publishing.unzip();
        Ok(Plugin {
            registration,
            publication,
            supervisor: Some(supervisor),
            publisher,
            drain: work.drain(),
            grace: self.grace,
            stop: stop.drop_guard(),
        })
    }
}
