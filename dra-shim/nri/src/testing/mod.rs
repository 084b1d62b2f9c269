//! A fake runtime, to test a plugin without containerd.
//!
//! It listens on a socket, registers, configures and synchronizes a plugin over the real
//! protocol as the NRI of a containerd does, and calls it with NRI's time-outs. Comments
//! that begin with *Fact* state behaviour of NRI that the code reproduces.
//!
//! ```
//! use std::error::Error;
//!
//! use nri_plugin::api::{Container, ContainerAdjustment, PodSandbox};
//! use nri_plugin::testing::{CallError, FakeRuntime, Options};
//! use nri_plugin::{Context, Creation, Events, Plugin, Refusal, Service};
//!
//! /// The plugin under test.
//! struct Names;
//!
//! impl Plugin for Names {
//!     fn events(&self) -> Events {
//!         Events::CREATE_CONTAINER
//!     }
//!
//!     async fn create_container(&self, _: &Context, pod: &PodSandbox, _: &Container) -> Result<Creation, Refusal> {
//!         if pod.name.is_empty() {
//!             return Err(Refusal::new("the pod has no name"));
//!         }
//!         Ok(ContainerAdjustment::default().with_env("POD", &pod.name).into())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn Error>> {
//!     // A short path: socket paths end at 107 bytes.
//!     let directory = tempfile::tempdir()?;
//!     let socket = directory.path().join("nri.sock");
//!     let runtime = FakeRuntime::start(&socket, Options::default())?;
//!     let service = Service::builder(10, "names").socket(&socket).start(Names)?;
//!     runtime.wait_registered().await;
//!
//!     let mut pod = PodSandbox { name: "web".into(), ..Default::default() };
//!     let creation = runtime.create_container(&pod, &Container::default()).await?;
//!     assert_eq!(creation.adjustment.env[0].value, "web");
//!
//!     pod.name.clear();
//!     let refused = runtime.create_container(&pod, &Container::default()).await;
//!     assert!(matches!(refused, Err(CallError::Refused(reason)) if reason == "the pod has no name"));
//!
//!     // The service connects again.
//!     runtime.restart().await?;
//!     runtime.wait_registered().await;
//!     service.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # Threads
//!
//! `#[tokio::test]` has one thread for the plugin and the fake. A method that blocks it
//! stops the fake's clock too, which then finds the plugin late after any time. For such a
//! plugin use `#[tokio::test(flavor = "multi_thread")]`.
//!
//! # Limits
//!
//! One plugin at a time. It keeps no containers: updates are recorded and not applied, and
//! `create_container` does not call `validate`. Adjustments are not checked; what a release does
//! not know of them is left out, as by the runtime. Pods and containers are sent as they are
//! given, also with fields that the release does not have, such as `image`.

mod events;
mod fake_runtime;
mod options;
mod registration;
mod runtime_service;
mod unsolicited_updates;

pub use events::CallError;
pub use fake_runtime::FakeRuntime;
pub use options::{Options, Release};
pub use registration::Registered;
