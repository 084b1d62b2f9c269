//! Plugins of the Node Resource Interface (NRI), for containerd and CRI-O.
//!
//! A plugin implements [`Plugin`]: it returns its [`Events`] and has a method for each. The
//! runtime calls these when a pod or container is created, changed, stopped or removed, and
//! applies the answer: it adjusts the new container, updates others, or fails the request.
//! [`Service::builder`] connects, registers, and keeps the plugin registered.
//!
//! ```
//! use nri_plugin::api::{Container, ContainerAdjustment, PodSandbox};
//! use nri_plugin::{Context, Creation, Events, Plugin, Refusal, Service};
//!
//! /// Gives each container its pod's name.
//! struct Names;
//!
//! impl Plugin for Names {
//!     fn events(&self) -> Events {
//!         Events::CREATE_CONTAINER
//!     }
//!
//!     async fn create_container(&self, _: &Context, pod: &PodSandbox, container: &Container) -> Result<Creation, Refusal> {
//!         if container.args.is_empty() {
//!             return Err(Refusal::new("a container without a command is not for this node"));
//!         }
//!         Ok(ContainerAdjustment::default().with_env("POD", &pod.name).into())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), nri_plugin::StartError> {
//! // Plugins are called in the order of their indices: 0 to 99.
//! let service = Service::builder(50, "names")
//! #   .socket("/nonexistent/nri.sock")
//!     .start(Names)?;
//! println!("{}", *service.state().borrow());
//! service.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! | what for | where |
//! |---|---|
//! | events and their answers | [`Plugin`], [`api`], [`Refusal`] |
//! | how long a method may take | [`Context`], [`Late`] |
//! | version and events of the runtime | [`Runtime`] |
//! | updates at any time | [`ServiceBuilder::start_with`], [`Updates`] |
//! | readiness, and why the plugin is not registered | [`State`], [`ConnectionError`] |
//! | a fake runtime for tests | `testing`, with the feature of this name |
//!
//! Registrations, failed ones, late answers and panics are logged through `tracing`. The
//! README has the `main` of a complete plugin, the runtimes' versions, and what a plugin's pod
//! needs.
//!
//! # Inside
//!
//! ```text
//!            runtime (containerd, CRI-O)
//!                 ▲  unix socket, reconnected when lost (service, backoff)
//!                 ▼
//!               trunk ── frames of two connections, ttrpc messages in them (wire)
//!       1: calls  │  ▲  2: RegisterPlugin, UpdateContainers
//!                 ▼  │
//!      plugin_service session ── registers; complete after Configure and Synchronize
//!                 │       └────► State (watch)       ▲
//!                 ▼                               Updates
//!              Plugin
//! ```
//!
//! * `wire` encodes and decodes frames and messages. No I/O.
//! * `trunk` reads and writes them. It serves at most 16 calls at once, each in its own task,
//!   answers each in time, and makes calls.
//! * `plugin_service` turns the runtime's calls into calls of [`Plugin`]'s methods.
//!   `synchronization` joins pods and containers that are sent in parts.
//! * `session` is one connection from the registration on; `service` opens the next one.
//! * `runtime` decides which events a runtime knows.
//! * `inherited` is the connection of a plugin that the runtime has started.
//!
//! ## Why not the `ttrpc` crate
//!
//! Three reasons, each sufficient. Frames: NRI's multiplexer in Go drops a connection whose
//! frames are not split as Go's ttrpc splits them, and a byte stream under a ttrpc library
//! cannot do that. Panics: `ttrpc` 0.10 does not answer a call whose handler panics.
//! Dependencies: it needs `protoc` or a second protobuf library. NRI has no streaming methods,
//! so the rest of ttrpc is small.
#![forbid(unsafe_code)]

pub mod api;
mod backoff;
mod builder;
mod context;
#[cfg(test)]
mod death_tests;
mod error;
mod events;
#[cfg(test)]
mod hostile_tests;
mod identity;
mod inherited;
mod plugin;
mod plugin_service;
mod refusal;
mod runtime;
mod service;
mod session;
mod state;
mod synchronization;
#[cfg(feature = "testing")]
pub mod testing;
mod trunk;
mod updates;
mod wire;

pub use builder::{ServiceBuilder, StartError};
pub use context::Context;
pub use error::{ConnectionError, UpdateError};
pub use events::Events;
pub use identity::Late;
pub use plugin::{Changes, Creation, Plugin};
pub use refusal::Refusal;
pub use runtime::Runtime;
pub use service::Service;
pub use state::State;
pub use updates::Updates;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
