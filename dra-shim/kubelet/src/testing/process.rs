//! One kubelet process: the state in memory that is lost when it ends.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answers::CallError;
use super::channel::Channel;
use super::event::{Event, ServiceVersion};
use super::health_reports::Reports;
use super::node::{Node, locked};
use super::plugins::{Plugin, Plugins, Registered};

pub(super) struct Process {
    pub(super) node: Arc<Node>,
    /// Changes when a connection is opened or lost and when a plugin is added or removed.
    pub(super) connections: watch::Sender<()>,
    plugins: Mutex<Plugins>,
    /// All drivers that have been registered since the start.
    drivers: Mutex<BTreeSet<String>>,
    health: Mutex<Reports>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

// === impl Process ===

impl Process {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            connections: watch::Sender::new(()),
            plugins: Mutex::default(),
            drivers: Mutex::default(),
            health: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Runs a task until the process ends.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled_owned(task).await;
        });
    }

    /// Ends the process like SIGKILL: cuts every connection and call, and drops all tasks.
    pub(super) fn kill(&self) {
        self.stop.cancel();
        self.tasks.close();
        locked(&self.plugins).clear();
        self.node.log.push(Event::Stopped);
    }

    /// Waits until all tasks have ended, after [`Process::kill`].
    pub(super) async fn ended(&self) {
        self.tasks.wait().await;
    }

    pub(super) fn health(&self) -> MutexGuard<'_, Reports> {
        locked(&self.health)
    }

    /// The plugin that gets the driver's next call.
    pub(super) fn plugin(
        &self,
        driver: &str,
    ) -> Result<(PathBuf, ServiceVersion, Arc<Channel>), CallError> {
        let plugins = locked(&self.plugins);
        let plugin = plugins
            .choose(driver)
            .ok_or_else(|| CallError::NotRegistered {
                driver: driver.to_owned(),
            })?;
        let channel = Arc::clone(&plugin.channel);
        Ok((plugin.endpoint.clone(), plugin.service, channel))
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

    /// Removes a plugin, which cuts its connection and cancels its health stream.
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
        self.node.log.push(Event::Registered {
            driver,
            endpoint,
            service,
        });
    }

    pub(super) fn unregister(&self, plugin: &Registered) {
        self.remove(plugin);
        let Registered { driver, endpoint } = plugin.clone();
        self.node.log.push(Event::Unregistered { driver, endpoint });
    }

    /// Every driver since the start, and whether any of its plugins is connected.
    pub(super) fn drivers(&self) -> Vec<(String, bool)> {
        let plugins = locked(&self.plugins);
        let drivers = locked(&self.drivers);
        let state = |driver: &String| (driver.clone(), plugins.is_connected(driver));
        drivers.iter().map(state).collect()
    }
}
