//! A fake kubelet, to test a driver without a cluster.
//!
//! It finds the plugin's sockets, registers it, opens its health stream and calls it over
//! real unix sockets, as kubelet 1.34 to 1.36 does, with kubelet's back-offs, timeouts and
//! checks of every answer. [`FakeKubelet::prepare`] makes one call;
//! [`FakeKubelet::run_pod`] does what kubelet does for a pod: repeats failed calls, shares
//! claims between pods, and unprepares with the last of them.
//!
//! It is independent of the plugin's side except for the protocol definitions, so plugins
//! that do not use this library can be tested as well.
//!
//! Comments that begin with *Fact* state behaviour of kubelet that the code reproduces.
//!
//! ```
//! use std::error::Error;
//!
//! use dra_kubelet::testing::{FakeKubelet, Options, Phase, Pod, PodClaim};
//! use dra_kubelet::{
//!     Context, Claim, ClaimError, ClaimRef, ClaimSource, PreparedDevice, Driver, GetClaimError, Plugin,
//! };
//!
//! /// The driver under test.
//! struct Lamps;
//!
//! impl Driver for Lamps {
//!     async fn prepare(&self, _context: &Context, claim: &Claim) -> Result<Vec<PreparedDevice>, ClaimError> {
//!         let cdi_id = |lamp: &str| format!("lamps.example.com/lamp={lamp}");
//!         let lamps = claim.results.iter();
//!         Ok(lamps.map(|lamp| PreparedDevice::from_result(lamp, vec![cdi_id(lamp.device())])).collect())
//!     }
//!
//!     async fn unprepare(&self, _context: &Context, _claim: &ClaimRef) -> Result<(), ClaimError> {
//!         Ok(())
//!     }
//! }
//!
//! /// Stands in for the API server.
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
//!     // A short path: socket paths end at 107 bytes.
//!     let root = tempfile::tempdir()?;
//!     let kubelet = FakeKubelet::start(root.path(), Options::default())?;
//!     let plugin = Plugin::builder("lamps.example.com", "node-1")
//!         .kubelet_root(root.path())
//!         .start(Lamps, OneClaim)?;
//!     kubelet.wait_registered("lamps.example.com").await;
//!
//!     let claim = ClaimRef { namespace: "ns".into(), name: "c".into(), uid: "uid-1".into() };
//!     let drivers = vec!["lamps.example.com".to_owned()];
//!     let claims = vec![PodClaim { claim: claim.clone(), drivers }];
//!     let mut pod = kubelet.run_pod(Pod { uid: "pod-1".into(), claims });
//!     pod.wait_for(|phase| *phase == Phase::Running).await?;
//!     let devices = kubelet.devices(&claim).unwrap_or_default();
//!     assert_eq!(devices[0].cdi_ids, ["lamps.example.com/lamp=lamp-0"]);
//!
//!     // kubelet forgets which claims are prepared; the driver must not.
//!     kubelet.restart().await?;
//!     kubelet.wait_registered("lamps.example.com").await;
//!     kubelet.delete_pod("pod-1");
//!     pod.wait_for(|phase| *phase == Phase::Gone).await?;
//!     plugin.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # Publishing
//!
//! [`PluginBuilder::publish`](crate::PluginBuilder::publish) takes any `kube::Client`, and
//! `kube::Client::new` takes a `tower` service. A service in memory needs to answer
//! `GET /api/v1/nodes/NODE` and list, watch, `POST`, `PUT` and `DELETE` of
//! `/apis/resource.k8s.io/v1/resourceslices`. A watch must stay open, and stored objects need a
//! `metadata.resourceVersion` and a `uid`. `tests/support/api.rs` of this crate is such a service.
//! With [`FakeKubelet::start_with_api`] the fake deletes slices there as kubelet does.
//!
//! # Limits
//!
//! It reads neither claims nor pods from an API server: the test decides whether a claim is
//! allocated and reserved for the pod. Jitter is kubelet's for pods and absent elsewhere. A
//! connection counts as made when the service accepts it, not after its first HTTP/2 frame.
//! It does not check who created a socket. An [`Event::InvalidDevice`] is about what the
//! answer shows by itself, since the fake does not know the allocation.
//!
//! # Structure
//!
//! ```text
//! FakeKubelet ──► startup ──► plugin_manager ──► registration ──► health (stream)
//!                    ├──────► pod_worker ──────► call
//!                    └──────► slice_cleanup
//! all of them ──► Process (memory of one kubelet process) ──► Node (what outlives it)
//! ```

mod answers;
mod authority;
mod call;
mod channel;
mod claims;
mod event;
mod fake_kubelet;
mod faults;
mod health;
mod health_reports;
mod http2;
mod invalid_devices;
mod node;
mod options;
mod plugin_manager;
mod plugins;
mod pod;
mod pod_worker;
mod process;
mod registration;
mod slice_cleanup;
mod startup;
mod watcher;

pub use self::answers::{Answers, CallError};
pub use self::event::{Event, ServiceVersion};
pub use self::fake_kubelet::FakeKubelet;
pub use self::faults::RegistrationStep;
pub use self::options::{Options, Release, RepeatedPrepare, Times};
pub use self::pod::{Phase, Pod, PodClaim};
