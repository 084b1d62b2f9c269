//! The fake kubelet as tests use it.

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

/// A kubelet on a directory of its own, see the [module](super). Dropping it ends it as if
/// it were killed.
///
/// Its methods may be called from any thread, from several at once, and in any order; those
/// that start something do so in tasks of the current tokio runtime.
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

    /// As [`FakeKubelet::start`], and it also deletes the `ResourceSlice`s of `node` when
    /// kubelet would: all of them at its start, and those of a driver that has been
    /// disconnected for [`Times::wipe`](super::Times::wipe).
    ///
    /// `client` is used from a task of its own, one `DELETE` of a collection at a time.
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
    /// are cut at once. Plugins, health and which claims are prepared are forgotten; the
    /// record of claims and the pods remain.
    pub async fn stop(&self) {
        let process = locked(&self.process).take();
        if let Some(process) = process {
            process.kill();
            process.ended().await;
        }
    }

    /// [`FakeKubelet::stop`], then a new process, which registers every socket again.
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

    /// The directory that it watches.
    pub fn registry(&self) -> PathBuf {
        self.node.registry()
    }

    /// Returns once a plugin of this name is registered with the running process. Waits
    /// forever otherwise: the caller sets a timeout.
    pub async fn wait_registered(&self, driver: &str) {
        self.wait_until(|events| !event::registered(events, driver).is_empty())
            .await;
    }

    /// The service sockets of the driver's plugins that kubelet would call, oldest first. As
    /// in kubelet, a plugin is among them before it is notified of its registration.
    pub fn endpoints(&self, driver: &str) -> Vec<PathBuf> {
        self.process()
            .map_or_else(Vec::new, |process| process.endpoints(driver))
    }

    /// Loses the plugins' next `count` answers to this step: the plugin has answered, and
    /// kubelet behaves as if the call had failed. Replaces an earlier count for the step;
    /// effective from the next answer on, of whichever plugin.
    pub fn lose_answers(&self, step: RegistrationStep, count: u32) {
        self.node.set_faults(step, count);
    }

    /// Makes one `NodePrepareResources` call with all these claims, without a pod: nothing
    /// is recorded, and nothing is repeated. Dropping the future cancels the call.
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

    /// Adds a pod to the node, also while no process runs. Its claims are prepared, again
    /// and again until that succeeds. If there is a pod of that UID already, it is returned
    /// instead.
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

    /// Deletes a pod, also while no process runs. Its claims are unprepared, again and again
    /// until that succeeds, unless other pods have them too. Returns at once; an unknown UID
    /// is ignored.
    pub fn delete_pod(&self, uid: &str) {
        self.delete(uid, Deletion::Graceful);
    }

    /// Deletes a pod with grace period 0: it is forgotten at once, and its claims are
    /// unprepared by the clean-up of [`Times::cleanup`](super::Times::cleanup).
    pub fn force_delete_pod(&self, uid: &str) {
        self.delete(uid, Deletion::Forced);
    }

    fn delete(&self, uid: &str, deletion: Deletion) {
        if let Some(record) = self.node.pod(uid) {
            record.deletion.send_replace(deletion);
        }
    }

    /// The devices in kubelet's record of the claim, which is what the runtime gets; `None`
    /// before a pod's first Prepare and after its Unprepare.
    pub fn devices(&self, claim: &ClaimRef) -> Option<Vec<PreparedDevice>> {
        self.node.claims().devices(claim)
    }

    /// The health of a device as kubelet would show it: [`Health::Unknown`](crate::Health) if
    /// no stream has reported it, or not recently enough.
    pub fn health(&self, driver: &str, pool: &str, device: &str) -> DeviceHealth {
        match self.process() {
            Some(process) => process.health().read(driver, pool, device),
            None => Reports::default().read(driver, pool, device),
        }
    }

    /// All events so far, also those of processes that have ended.
    pub fn events(&self) -> Vec<Event> {
        self.node.log.snapshot()
    }

    /// Returns once `condition` holds for [`FakeKubelet::events`]. Waits forever otherwise:
    /// the caller sets a timeout.
    ///
    /// `condition` is called on the caller's task, first with the events so far and then
    /// after each new event, though not for every one if several come at once. It runs under
    /// a lock that every new event needs: it must neither block nor call the fake.
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
