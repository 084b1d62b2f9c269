//! One kubelet process: what it holds in memory and loses when it ends.

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::call::CallError;
use super::event::{Event, Service};
use super::handshake::Registered;
use super::health::Reports;
use super::link::Link;
use super::plugins::{Plugin, Plugins};
use super::watcher::Watcher;
use super::world::{World, locked};
use super::{manager, pods, slices};

pub(super) struct Session {
    pub(super) world: Arc<World>,
    /// Told of every connection made or lost and of every plugin that goes.
    pub(super) connections: watch::Sender<()>,
    plugins: Mutex<Plugins>,
    /// All that were registered since the start.
    drivers: Mutex<BTreeSet<String>>,
    health: Mutex<Reports>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Session {
    /// Begins: makes the registry directory if need be (0755, as kubelet does), and
    /// takes up the pods that there are.
    pub(super) fn start(world: Arc<World>) -> io::Result<Arc<Self>> {
        let registry = world.registry();
        let mut directories = fs::DirBuilder::new();
        directories.recursive(true).mode(0o755).create(&registry)?;
        let (watcher, found) = Watcher::new(&registry)?;
        let session = Arc::new(Self {
            world,
            connections: watch::Sender::new(()),
            plugins: Mutex::default(),
            drivers: Mutex::default(),
            health: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        session.world.claims().forget_prepared();
        session.world.log.push(Event::Started);
        session.spawn(manager::run(Arc::clone(&session), watcher, found));
        session.spawn(pods::clean_up(Arc::clone(&session)));
        if let Some(api) = session.world.api.clone() {
            session.spawn(slices::wipe(Arc::clone(&session), api));
        }
        for pod in session.world.pod_uids() {
            session.spawn(pods::work(Arc::clone(&session), pod));
        }
        Ok(session)
    }

    /// Runs until the process ends.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled_owned(task).await;
        });
    }

    /// As SIGKILL: cuts every connection and call. What the tasks hold of the
    /// session goes with them.
    pub(super) fn kill(&self) {
        self.stop.cancel();
        self.tasks.close();
        locked(&self.plugins).clear();
        self.world.log.push(Event::Stopped);
    }

    /// After [`Session::kill`]: nothing of it acts any more.
    pub(super) async fn ended(&self) {
        self.tasks.wait().await;
    }

    pub(super) fn health(&self) -> MutexGuard<'_, Reports> {
        locked(&self.health)
    }

    /// Who gets the driver's next call.
    pub(super) fn plugin(&self, driver: &str) -> Result<(PathBuf, Service, Arc<Link>), CallError> {
        let plugins = locked(&self.plugins);
        let plugin = plugins
            .choose(driver)
            .ok_or_else(|| CallError::NotRegistered {
                driver: driver.to_owned(),
            })?;
        let link = Arc::clone(&plugin.link);
        Ok((plugin.endpoint.clone(), plugin.service, link))
    }

    pub(super) fn endpoints(&self, driver: &str) -> Vec<PathBuf> {
        locked(&self.plugins).endpoints(driver)
    }

    pub(super) fn add(&self, plugin: Plugin) -> Result<(), String> {
        let driver = plugin.driver.clone();
        locked(&self.plugins).add(plugin)?;
        locked(&self.drivers).insert(driver);
        self.connections.send_modify(|()| {});
        Ok(())
    }

    /// The connection is cut and the health stream cancelled.
    pub(super) fn remove(&self, plugin: &Registered) {
        locked(&self.plugins).remove(&plugin.driver, &plugin.endpoint);
        self.connections.send_modify(|()| {});
    }

    pub(super) fn registered(&self, plugin: &Registered) {
        let service = {
            let plugins = locked(&self.plugins);
            plugins.service(&plugin.driver, &plugin.endpoint)
        };
        let Some(service) = service else { return };
        let Registered { driver, endpoint } = plugin.clone();
        self.world.log.push(Event::Registered {
            driver,
            endpoint,
            service,
        });
    }

    pub(super) fn unregister(&self, plugin: &Registered) {
        self.remove(plugin);
        let Registered { driver, endpoint } = plugin.clone();
        self.world
            .log
            .push(Event::Unregistered { driver, endpoint });
    }

    /// Every driver since the start, and whether one of its plugins is connected.
    pub(super) fn drivers(&self) -> Vec<(String, bool)> {
        let plugins = locked(&self.plugins);
        let drivers = locked(&self.drivers);
        let state = |driver: &String| (driver.clone(), plugins.is_connected(driver));
        drivers.iter().map(state).collect()
    }
}
