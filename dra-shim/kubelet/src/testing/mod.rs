//! A fake kubelet, to test a driver without a cluster.
//!
//! It finds the plugin's sockets, registers the plugin, opens its health stream and calls it
//! over real unix sockets. Back-offs, timeouts and checks of answers are those of kubelet 1.34
//! to 1.36. [`FakeKubelet::prepare`] makes one call. [`FakeKubelet::run_pod`] does kubelet's
//! work for a pod: it repeats failed calls, shares claims between pods, and unprepares a claim
//! with its last pod.
//!
//! It shares only the protocol definitions with the plugin's side, so it can also test plugins
//! that do not use this library.
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
//!     // A short path: socket paths have at most 107 bytes.
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
//!     // A restarted kubelet no longer knows which claims are prepared; the driver must.
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
//! `kube::Client::new` takes a `tower` service. A service in memory must support
//! `GET /api/v1/nodes/NODE`, and list, watch, `POST`, `PUT` and `DELETE` of
//! `/apis/resource.k8s.io/v1/resourceslices`. A watch must remain open, and stored objects need
//! a `metadata.resourceVersion` and a `uid`. `tests/support/api.rs` of this crate is an example.
//! With [`FakeKubelet::start_with_api`] the fake deletes slices there as kubelet does.
//!
//! # Limits
//!
//! * The fake reads no claims or pods from an API server: the test decides whether a claim is
//!   allocated and reserved for the pod.
//! * Only pauses for pods have kubelet's jitter; other pauses have none.
//! * A connection counts as established when the service accepts it, not after its first
//!   HTTP/2 frame.
//! * The fake does not check the owner of a socket.
//! * The fake does not know the allocation, so [`Event::InvalidDevice`] only reports problems
//!   within an answer.
//!
//! # Structure
//!
//! ```text
//! FakeKubelet ──► startup ──► plugin_manager ──► registration ──► health (stream)
//!                    ├──────► pod_worker ──────► call
//!                    └──────► slice_cleanup
//! all of them ──► Process (memory of one kubelet process) ──► Node (state that outlives it)
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
