//! The plugin as a whole: settings in, a running plugin out.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::driver::Driver;
use crate::health::DeviceHealth;
use crate::instance::{Common, Instance};
use crate::registration::Registration;
use crate::slices::{Desired, Publication, Publisher};
use crate::sockets::{Directories, SocketError};
use crate::source::ClaimSource;
use crate::supervisor::supervise;
use crate::work::{Drain, Work};

/// What cancelled steps and closing servers get at the end of a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
}

/// Why a plugin did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// kubelet would refuse it.
    #[error("driver name `{0}` is not a DNS subdomain of at most 63 lower-case characters")]
    DriverName(String),
    /// The node's name is empty.
    #[error("the node name is empty")]
    NodeName,
    /// The sockets.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

impl StartError {
    /// A stable word for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::DriverName(_) => "driver-name",
            Self::NodeName => "node-name",
            Self::Socket(error) => error.code(),
        }
    }

    /// What mends it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::DriverName(_) => "use a name such as driver.example.com",
            Self::NodeName => "pass the pod's spec.nodeName",
            Self::Socket(error) => error.hint(),
        }
    }
}

/// A running plugin. Dropped, it stops at once; [`Plugin::shutdown`] is kinder.
pub struct Plugin {
    registration: watch::Receiver<Registration>,
    publication: Option<watch::Receiver<Publication>>,
    /// None once it has ended.
    supervisor: Option<JoinHandle<Result<(), SocketError>>>,
    publisher: Option<JoinHandle<()>>,
    drain: Drain,
    grace: Duration,
    stop: DropGuard,
}

impl Plugin {
    /// Begins the settings of `driver` (its DNS name) on `node` (`spec.nodeName`).
    pub fn builder(driver: impl Into<String>, node: impl Into<String>) -> Builder {
        Builder {
            driver: driver.into(),
            node: node.into(),
            kubelet_root: PathBuf::from("/var/lib/kubelet"),
            registry: None,
            data: None,
            grace: Duration::from_secs(5),
            // Without a sender: an empty list, forever.
            health: watch::channel(Vec::new()).1,
            slices: None,
        }
    }

    /// What kubelet says about the plugin: ready is [`Registration::Registered`].
    pub fn registration(&self) -> watch::Receiver<Registration> {
        self.registration.clone()
    }

    /// How the slices stand; `None` without [`Builder::publish`].
    pub fn publication(&self) -> Option<watch::Receiver<Publication>> {
        self.publication.clone()
    }

    /// Ends only when a socket was lost and could not be opened again for 30 s:
    /// the process has no way to be of use any more. Cancel-safe.
    pub async fn failed(&mut self) -> SocketError {
        if let Some(supervisor) = &mut self.supervisor {
            let ended = supervisor.await;
            self.supervisor = None;
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(error) => {
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        std::future::pending().await
    }

    /// Stops in bounded time: calls in flight, and those that still come in, get
    /// the grace period to end by themselves; then they are cancelled and answered
    /// as such, in at most three seconds more. The streams end and the sockets are
    /// removed, which is how kubelet learns of it. Slices stay: kubelet removes
    /// them after 30 s without a successor.
    pub async fn shutdown(self) {
        let Self {
            supervisor,
            publisher,
            drain,
            grace,
            stop,
            ..
        } = self;
        if !drain.run(grace, LAST_WORDS).await {
            tracing::warn!(
                ?grace,
                "work was still in flight at the end of the grace period"
            );
        }
        drop(stop);
        if let Some(mut supervisor) = supervisor
            && tokio::time::timeout(2 * LAST_WORDS, &mut supervisor)
                .await
                .is_err()
        {
            supervisor.abort();
        }
        if let Some(publisher) = publisher {
            publisher.abort();
        }
    }
}

impl Builder {
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

    /// Publishes the node's devices as a `ResourceSlice`, and keeps it so.
    ///
    /// A dropped sender fixes the last value: it goes on being published, and is
    /// restored when someone changes or deletes it. To take the devices away, send
    /// [`Desired::Withdrawn`].
    pub fn publish(mut self, client: kube::Client, desired: watch::Receiver<Desired>) -> Self {
        self.slices = Some((client, desired));
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
        if !is_driver_name(&self.driver) {
            return Err(StartError::DriverName(self.driver));
        }
        if self.node.is_empty() {
            return Err(StartError::NodeName);
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
        let work = Work::new(self.driver.clone(), driver, claims);
        let (state, registration) = watch::channel(Registration::Pending);
        let common = Common {
            directories,
            work: work.clone(),
            health: self.health,
            registration: state,
        };
        let instance = Instance::open(&common)?;
        let stop = CancellationToken::new();
        let supervisor = tokio::spawn(supervise(common, instance, stop.clone()));

        let publishing = self.slices.map(|(client, desired)| {
            let publisher = Publisher::new(client, self.driver, self.node, desired);
            let state = publisher.state();
            (
                tokio::spawn(publisher.run(registration.clone(), stop.clone())),
                state,
            )
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

/// A DNS subdomain as the API server demands of `spec.driver`.
fn is_driver_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 63 && name.split('.').all(is_label)
}
