//! A fake runtime for tests of a plugin without containerd.
//!
//! It listens on a socket, registers, configures and synchronizes a plugin over the real
//! protocol like containerd's NRI, and calls it with NRI's time-outs. Comments that begin with
//! *Fact* describe behaviour of NRI that the code reproduces.
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
//!     // A short path: socket paths have at most 107 bytes.
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
//!     // The service reconnects.
//!     runtime.restart().await?;
//!     runtime.wait_registered().await;
//!     service.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # Threads
//!
//! `#[tokio::test]` has one thread for the plugin and the fake. A method that blocks it also
//! stops the fake's timers, so the fake cannot tell when the plugin is late. For such a plugin
//! use `#[tokio::test(flavor = "multi_thread")]`.
//!
//! # Limits
//!
//! One plugin at a time. The fake keeps no containers: it records updates and does not apply
//! them, and `create_container` does not call `validate`. Adjustments are not checked; fields that
//! the release does not know are removed, as by the runtime. Pods and containers are sent as
//! given, also with fields that the release lacks, such as `image`.

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
