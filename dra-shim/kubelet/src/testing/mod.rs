//! A fake kubelet, to test a driver without a cluster.
//!
//! It finds the plugin's sockets, registers it, opens its health stream and calls
//! it over real unix sockets, as kubelet 1.34 to 1.36 does, with kubelet's
//! back-offs, deadlines and checks of every answer. [`FakeKubelet::prepare`] makes
//! one call; [`FakeKubelet::run_pod`] does what kubelet does for a pod: repeats what
//! failed, shares claims between pods, unprepares with the last of them.
//!
//! It shares nothing with the plugin's side but the protocol definitions: a plugin
//! that is written with something else can be tested as well.
//!
//! ```
//! use std::error::Error;
//!
//! use dra_kubelet::testing::{FakeKubelet, Options, Phase, Pod, PodClaim};
//! use dra_kubelet::{
//!     Call, Claim, ClaimError, ClaimRef, ClaimSource, Device, Driver, GetClaimError, Plugin,
//! };
//!
//! /// The driver under test.
//! struct Lamps;
//!
//! impl Driver for Lamps {
//!     async fn prepare(&self, _call: &Call, claim: &Claim) -> Result<Vec<Device>, ClaimError> {
//!         let cdi_id = |lamp: &str| format!("lamps.example.com/lamp={lamp}");
//!         let lamps = claim.results.iter();
//!         Ok(lamps.map(|lamp| Device::of(lamp, vec![cdi_id(&lamp.device)])).collect())
//!     }
//!
//!     async fn unprepare(&self, _call: &Call, _claim: &ClaimRef) -> Result<(), ClaimError> {
//!         Ok(())
//!     }
//! }
//!
//! /// The API server's part.
//! struct OneClaim;
//!
//! impl ClaimSource for OneClaim {
//!     async fn get(&self, _namespace: &str, _name: &str) -> Result<String, GetClaimError> {
//!         Ok(r#"{"metadata": {"uid": "uid-1"}, "status": {"allocation": {"devices": {"results": [
//!             {"request": "r", "driver": "lamps.example.com", "pool": "node-1", "device": "lamp-0"}
//!         ]}}}}"#.to_owned())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn Error>> {
//!     // Short, for the sake of the sockets' names, and gone afterwards.
//!     let root = tempfile::tempdir()?;
//!     let kubelet = FakeKubelet::start(root.path(), Options::default())?;
//!     let plugin = Plugin::builder("lamps.example.com", "node-1")
//!         .kubelet_root(root.path())
//!         .start(Lamps, OneClaim)?;
//!     kubelet.registered("lamps.example.com").await;
//!
//!     let claim = ClaimRef { namespace: "ns".into(), name: "c".into(), uid: "uid-1".into() };
//!     let drivers = vec!["lamps.example.com".to_owned()];
//!     let claims = vec![PodClaim { claim: claim.clone(), drivers }];
//!     let mut pod = kubelet.run_pod(Pod { uid: "pod-1".into(), claims });
//!     pod.wait_for(|phase| *phase == Phase::Running).await?;
//!     let devices = kubelet.devices(&claim).unwrap_or_default();
//!     assert_eq!(devices[0].cdi_ids, ["lamps.example.com/lamp=lamp-0"]);
//!
//!     // kubelet forgets what is prepared; the driver must not.
//!     kubelet.restart().await?;
//!     kubelet.registered("lamps.example.com").await;
//!     kubelet.delete_pod("pod-1");
//!     pod.wait_for(|phase| *phase == Phase::Gone).await?;
//!     plugin.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # Limits
//!
//! It reads no claims and pods from an API server: whether a claim is allocated and
//! reserved for the pod, the test knows. Jitter is kubelet's for pods and absent
//! elsewhere. A connection counts as made when the service accepts it, not after
//! its first HTTP/2 frame. It checks no trust: whoever makes a socket is called. Its
//! [`Event::Objection`]s are about what an answer shows by itself; what a claim has
//! been allocated it does not know.

mod authority;
mod call;
mod claims;
mod event;
mod handshake;
mod health;
mod link;
mod manager;
mod objections;
mod options;
mod plugins;
mod pods;
mod raw;
mod session;
mod slices;
mod watcher;
mod wire;
mod world;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

pub use self::call::{Answers, CallError};
pub use self::event::{Event, Service};
pub use self::options::{Options, Release, Repeated, Times};
use self::pods::Deletion;
pub use self::pods::{Phase, Pod, PodClaim};
use self::session::Session;
use self::slices::NodeApi;
use self::world::{World, locked};
use crate::claim::ClaimRef;
use crate::driver::Device;
use crate::health::DeviceHealth;
use crate::observer::Method;

/// A kubelet on a directory of its own, see the [module](self). Dropped, it ends as
/// if it were killed.
pub struct FakeKubelet {
    world: Arc<World>,
    /// The process that runs, if one does.
    session: Mutex<Option<Arc<Session>>>,
}

/// A step of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationStep {
    /// `GetInfo`.
    GetInfo,
    /// `NotifyRegistrationStatus`: the plugin believes that it is registered, and
    /// kubelet unregisters it.
    Notify,
}

impl FakeKubelet {
    /// Starts a kubelet whose `--root-dir` is `root`.
    ///
    /// # Errors
    ///
    /// `root/plugins_registry` cannot be made or watched.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(root: &Path, options: Options) -> io::Result<Self> {
        Self::begin(World::new(root.to_owned(), options, None))
    }

    /// The same, and it deletes the `ResourceSlice`s of `node` when kubelet would:
    /// all of them at its start, a driver's when that has been disconnected for
    /// [`Times::wipe`].
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
        let node = node.into();
        let api = NodeApi { client, node };
        Self::begin(World::new(root.to_owned(), options, Some(api)))
    }

    fn begin(world: World) -> io::Result<Self> {
        let world = Arc::new(world);
        let session = Session::start(Arc::clone(&world))?;
        Ok(Self {
            world,
            session: Mutex::new(Some(session)),
        })
    }

    /// Kills the process. Connections and calls are cut at once; plugins, health and
    /// what is prepared are forgotten, while the record of claims and the pods stay.
    pub async fn stop(&self) {
        let session = locked(&self.session).take();
        if let Some(session) = session {
            session.kill();
            session.ended().await;
        }
    }

    /// [`FakeKubelet::stop`], then a new process: it registers every socket anew.
    ///
    /// # Errors
    ///
    /// As [`FakeKubelet::start`].
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        let session = Session::start(Arc::clone(&self.world))?;
        *locked(&self.session) = Some(session);
        Ok(())
    }

    /// The directory that it watches.
    pub fn registry(&self) -> PathBuf {
        self.world.registry()
    }

    /// Ends when a plugin of this name is registered with the process that runs.
    pub async fn registered(&self, driver: &str) {
        self.until(|events| !event::registered(events, driver).is_empty())
            .await;
    }

    /// The service sockets of the driver's plugins that kubelet would call, the
    /// oldest first. As in kubelet, a plugin is among them before it is told of its
    /// registration.
    pub fn endpoints(&self, driver: &str) -> Vec<PathBuf> {
        self.session()
            .map_or_else(Vec::new, |session| session.endpoints(driver))
    }

    /// Loses the plugins' next `count` answers to this step: kubelet behaves as if
    /// the call had failed.
    pub fn lose_answers(&self, step: RegistrationStep, count: u32) {
        self.world.set_faults(step, count);
    }

    /// One `NodePrepareResources` with all these claims, without a pod: nothing is
    /// recorded, and nothing repeated.
    ///
    /// # Errors
    ///
    /// The call as a whole failed; a claim's own error is in its answer.
    pub async fn prepare(&self, driver: &str, claims: &[ClaimRef]) -> Result<Answers, CallError> {
        self.call(driver, Method::Prepare, claims).await
    }

    /// One `NodeUnprepareResources`, like [`FakeKubelet::prepare`].
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
        let session = self.session().ok_or(CallError::Stopped)?;
        call::call(&session, driver, method, claims).await
    }

    /// Brings a pod to the node, also while no process runs: its claims are
    /// prepared, again and again until that works. A UID that was used before is
    /// that pod.
    pub fn run_pod(&self, pod: Pod) -> watch::Receiver<Phase> {
        let uid = pod.uid.clone();
        if self.world.add_pod(pod)
            && let Some(session) = self.session()
        {
            session.spawn(pods::work(Arc::clone(&session), uid.clone()));
        }
        let record = self.world.pod(&uid);
        record.map_or_else(
            || watch::channel(Phase::Gone).1,
            |record| record.phase.subscribe(),
        )
    }

    /// Deletes a pod, also while no process runs: its claims are unprepared until
    /// that works, unless other pods have them too.
    pub fn delete_pod(&self, uid: &str) {
        self.delete(uid, Deletion::Graceful);
    }

    /// Deletes a pod with grace period 0: it is forgotten at once, and its claims
    /// are unprepared by the clean-up of [`Times::cleanup`].
    pub fn force_delete_pod(&self, uid: &str) {
        self.delete(uid, Deletion::Forced);
    }

    fn delete(&self, uid: &str, deletion: Deletion) {
        if let Some(record) = self.world.pod(uid) {
            record.deletion.send_replace(deletion);
        }
    }

    /// What kubelet's record has for the claim, and so what the runtime gets; `None`
    /// before a pod's first Prepare and after its Unprepare.
    pub fn devices(&self, claim: &ClaimRef) -> Option<Vec<Device>> {
        self.world.claims().devices(claim)
    }

    /// What kubelet would show of a device: [`Health::Unknown`](crate::Health) for
    /// one that no stream has reported, or not lately enough.
    pub fn health(&self, driver: &str, pool: &str, device: &str) -> DeviceHealth {
        match self.session() {
            Some(session) => session.health().read(driver, pool, device),
            None => health::Reports::default().read(driver, pool, device),
        }
    }

    /// Everything so far, also of processes that have ended.
    pub fn events(&self) -> Vec<Event> {
        self.world.log.snapshot()
    }

    /// Ends when `condition` holds for [`FakeKubelet::events`]. The caller sets the
    /// time to give up.
    pub async fn until(&self, condition: impl FnMut(&[Event]) -> bool + Send) {
        self.world.log.until(condition).await;
    }

    fn session(&self) -> Option<Arc<Session>> {
        locked(&self.session).clone()
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        if let Some(session) = locked(&self.session).take() {
            session.kill();
        }
    }
}
