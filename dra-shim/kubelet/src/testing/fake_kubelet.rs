//! The fake kubelet's interface for tests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::answers::{Answers, CallError};
use super::event::{self, Event};
use super::faults::RegistrationStep;
use super::health_reports::Reports;
use super::node::{Node, NodeApi, locked};
use super::options::Options;
use super::pod::{Deletion, Phase, Pod};
use super::process::Process;
use super::{call, pod_worker, startup};
use crate::device_health::DeviceHealth;
use crate::driver::PreparedDevice;
use crate::observer::Method;
use dra_claim::ClaimRef;

/// A fake kubelet with its own directory, see the [module](super). Dropping it is like killing
/// kubelet.
///
/// Its methods may be called concurrently, from any thread and in any order. Background work
/// runs in tasks of the current tokio runtime.
pub struct FakeKubelet {
    node: Arc<Node>,
    /// The running process, if there is one.
    process: Mutex<Option<Arc<Process>>>,
}

// === impl FakeKubelet ===

impl FakeKubelet {
    /// Starts a kubelet whose `--root-dir` is `root`.
    ///
    /// # Errors
    ///
    /// `root/plugins_registry` cannot be created or watched.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(root: &Path, options: Options) -> io::Result<Self> {
        Self::begin(Node::new(root.to_owned(), options, None))
    }

    /// Starts a kubelet like [`FakeKubelet::start`] that also deletes the `ResourceSlice`s of
    /// `node`: all of them at its start, and those of a driver that has been disconnected for
    /// [`Times::wipe`](super::Times::wipe).
    ///
    /// One task uses `client`, with one `DELETE` of a collection at a time.
    ///
    /// # Errors
    ///
    /// As [`FakeKubelet::start`].
    pub fn start_with_api(
        root: &Path,
        options: Options,
        client: kube::Client,
        node: impl Into<String>,
    ) -> io::Result<Self> {
        let name = node.into();
        let api = NodeApi { client, name };
        Self::begin(Node::new(root.to_owned(), options, Some(api)))
    }

    fn begin(node: Node) -> io::Result<Self> {
        let node = Arc::new(node);
        let process = startup::start(&node)?;
        Ok(Self {
            node,
            process: Mutex::new(Some(process)),
        })
    }

    /// Kills the process, and returns when all of its tasks have ended. Connections and calls
    /// are cut at once. Plugins, health and the prepared state of claims are lost; the record
    /// of claims and the pods remain.
    pub async fn stop(&self) {
        let process = locked(&self.process).take();
        if let Some(process) = process {
            process.kill();
            process.ended().await;
        }
    }

    /// Stops the process like [`FakeKubelet::stop`], and starts a new one, which registers every
    /// socket again.
    ///
    /// # Errors
    ///
    /// As [`FakeKubelet::start`].
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        let process = startup::start(&self.node)?;
        *locked(&self.process) = Some(process);
        Ok(())
    }

    /// The directory that the fake watches.
    pub fn registry(&self) -> PathBuf {
        self.node.registry()
    }

    /// Waits until a plugin of this driver is registered with the running process. The caller
    /// sets a timeout.
    pub async fn wait_registered(&self, driver: &str) {
        self.wait_until(|events| !event::registered(events, driver).is_empty())
            .await;
    }

    /// The service sockets of the driver's registered plugins, oldest first. As in kubelet, a
    /// plugin is registered before it is notified of that.
    pub fn endpoints(&self, driver: &str) -> Vec<PathBuf> {
        self.process()
            .map_or_else(Vec::new, |process| process.endpoints(driver))
    }

    /// Loses the next `count` answers to this step, of any plugin: the plugin has answered, but
    /// kubelet behaves as if the call had failed. Replaces an earlier count for the step.
    pub fn lose_answers(&self, step: RegistrationStep, count: u32) {
        self.node.set_faults(step, count);
    }

    /// Makes one `NodePrepareResources` call with all these claims, without a pod: there is no
    /// record and no retry. Dropping the future cancels the call.
    ///
    /// # Errors
    ///
    /// The call as a whole failed; a claim's own error is in its answer.
    pub async fn prepare(&self, driver: &str, claims: &[ClaimRef]) -> Result<Answers, CallError> {
        self.call(driver, Method::Prepare, claims).await
    }

    /// Makes one `NodeUnprepareResources` call, like [`FakeKubelet::prepare`].
    ///
    /// # Errors
    ///
    /// The call as a whole failed; a claim's own error is in its answer.
    pub async fn unprepare(&self, driver: &str, claims: &[ClaimRef]) -> Result<Answers, CallError> {
        self.call(driver, Method::Unprepare, claims).await
    }

    async fn call(
        &self,
        driver: &str,
        method: Method,
        claims: &[ClaimRef],
    ) -> Result<Answers, CallError> {
        let process = self.process().ok_or(CallError::Stopped)?;
        call::call(&process, driver, method, claims).await
    }

    /// Adds a pod to the node, even while no process runs. Its claims are prepared, with
    /// retries until that succeeds. If the node has a pod with this UID, that one is returned.
    pub fn run_pod(&self, pod: Pod) -> watch::Receiver<Phase> {
        let uid = pod.uid.clone();
        if self.node.add_pod(pod)
            && let Some(process) = self.process()
        {
            process.spawn(pod_worker::run(Arc::clone(&process), uid.clone()));
        }
        let record = self.node.pod(&uid);
        record.map_or_else(
            || watch::channel(Phase::Gone).1,
            |record| record.phase.subscribe(),
        )
    }

    /// Deletes a pod, even while no process runs. Its claims are unprepared, with retries until
    /// that succeeds, unless other pods have them too. Returns at once; an unknown UID is
    /// ignored.
    pub fn delete_pod(&self, uid: &str) {
        self.delete(uid, Deletion::Graceful);
    }

    /// Deletes a pod with grace period 0: it is removed at once, and the clean-up of
    /// [`Times::cleanup`](super::Times::cleanup) unprepares its claims.
    pub fn force_delete_pod(&self, uid: &str) {
        self.delete(uid, Deletion::Forced);
    }

    fn delete(&self, uid: &str, deletion: Deletion) {
        if let Some(record) = self.node.pod(uid) {
            record.deletion.send_replace(deletion);
        }
    }

    /// The devices in kubelet's record of the claim, which the runtime gets; `None` before the
    /// first Prepare and after the Unprepare.
    pub fn devices(&self, claim: &ClaimRef) -> Option<Vec<PreparedDevice>> {
        self.node.claims().devices(claim)
    }

    /// The health that kubelet shows for a device: [`Health::Unknown`](crate::Health) if no
    /// stream has reported it, or if the report is stale.
    pub fn health(&self, driver: &str, pool: &str, device: &str) -> DeviceHealth {
        match self.process() {
            Some(process) => process.health().read(driver, pool, device),
            None => Reports::default().read(driver, pool, device),
        }
    }

    /// All events so far, including those of ended processes.
    pub fn events(&self) -> Vec<Event> {
        self.node.log.snapshot()
    }

    /// Waits until `condition` holds for [`FakeKubelet::events`]. The caller sets a timeout.
    ///
    /// `condition` is called on the caller's task, first with the events so far and then after
    /// new events; several new events may need only one call. It runs under a lock that every
    /// new event needs, so it must neither block nor call the fake.
    pub async fn wait_until(&self, condition: impl FnMut(&[Event]) -> bool + Send) {
        self.node.log.until(condition).await;
    }

    fn process(&self) -> Option<Arc<Process>> {
        locked(&self.process).clone()
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        if let Some(process) = locked(&self.process).take() {
            process.kill();
        }
    }
}
