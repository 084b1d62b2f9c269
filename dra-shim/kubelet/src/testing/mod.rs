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
//!         Ok(lamps.map(|lamp| PreparedDevice::from_result(lamp, vec![cdi_id(&lamp.device)])).collect())
//!     }
//!
//!     async fn unprepare(&self, _context: &Context, _claim: &ClaimRef) -> Result<(), ClaimError> {
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
mod raw_http2;
mod registration;
mod slice_cleanup;
mod startup;
mod watcher;

pub use self::answers::{Answers, CallError};
pub use self::event::{Event, Service};
pub use self::fake_kubelet::FakeKubelet;
pub use self::faults::RegistrationStep;
pub use self::options::{Options, Release, RepeatedPrepare, Times};
pub use self::pod::{Phase, Pod, PodClaim};
