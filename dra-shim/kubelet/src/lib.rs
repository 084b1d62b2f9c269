//! The node side of Kubernetes Dynamic Resource Allocation (DRA), for drivers in Rust.
//!
//! A driver implements [`Driver`], which prepares and unprepares one claim. A [`Plugin`]
//! registers the driver with kubelet, serves kubelet's calls, and publishes the node's devices.
//! [`Plugin::builder`] is the entry point.
//!
//! # Structure
//!
//! ```text
//!            kubelet                                           API server
//!   plugins_registry │ plugins/DRIVER                       ▲             ▲
//!        │           │            │                         │ GET claim   │ ResourceSlice
//!        ▼           ▼            ▼                         │             │ GET node
//!   server::registration  server::dra  server::health       │             │
//!        │           │ claims     ▲ DeviceHealth (watch)    │             │
//!        │           ▼                                      │             │
//!        │       operations ──► attempt ──► ClaimSource ────┘             │
//!        │       one chain      one call        │ Claim                   │
//!        │       for each UID,  of the driver   ▼                         │
//!        │       retries                      Driver                      │
//!        │                                                                │
//!        └─ Registration (watch) ──► slices: plan and publisher ──────────┘
//!                                      ▲
//!                                      └── DesiredPool (watch)
//! ```
//!
//! * `server` opens the two sockets and serves them. `supervisor` opens new sockets under
//!   new names if the files disappear, and removes the sockets of dead instances. `dra`
//!   turns a call, in either version of the API, into one operation for each claim. It
//!   waits for all of them until shortly before kubelet's deadline.
//! * `operations` keeps one chain of operations for each claim UID. Each operation runs in
//!   a task that outlives its call. Calls can join an operation; `operations` also orders,
//!   cancels and retries. `attempt` reads the claim through a [`ClaimSource`], checks its UID
//!   and allocation, and calls the [`Driver`]. `device_checks` checks the returned devices.
//! * `slices` publishes the devices. It depends on the other two only through the
//!   registration: kubelet deletes every slice of its node when it starts, and in a rolling
//!   update the newest instance that kubelet has registered publishes.
//! * All three report to the [`Observer`], which a driver implements for its metrics.
//!
//! # Dependencies
//!
//! Registration needs only the sockets: it works without an API server and before the
//! driver is ready. Prepare needs the API server, and waits for it inside the call.
//! Unprepare needs only the driver.
//!
//! # Cancellation
//!
//! Attempts are *detached* from calls: neither a cancelled call nor a passed deadline
//! drops a driver's future. Two events fire [`Context::cancellation`] and then wait for the
//! future: an Unprepare of the claim, and the end of a shutdown's grace period. Dropping
//! the [`Plugin`] also fires it, but does not wait.
#![forbid(unsafe_code)]

mod builder;
mod claim;
mod claim_source;
mod context;
mod device_health;
mod driver;
mod error;
mod file_id;
mod names;
mod observer;
mod operations;
mod plugin;
mod proto;
mod registration;
mod server;
mod slices;
#[cfg(feature = "testing")]
pub mod testing;
mod text;

pub use builder::{PluginBuilder, StartError};
pub use claim::{Claim, ClaimObjectError};
pub use claim_source::{ClaimSource, GetClaimError, KubeClaims};
pub use context::Context;
pub use device_health::{DeviceHealth, Health};
pub use dra_claim::{ClaimRef, ClaimStatus, DeviceConfig, DeviceResult};
pub use driver::{Driver, PreparedDevice};
pub use error::{ClaimError, ErrorClass};
pub use observer::{CallOutcome, Method, Observer};
pub use plugin::Plugin;
pub use registration::Registration;
pub use server::SocketError;
pub use slices::{DesiredPool, DroppedField, Publication};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
