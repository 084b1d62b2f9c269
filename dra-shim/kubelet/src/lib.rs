//! The node side of Kubernetes Dynamic Resource Allocation (DRA), for drivers in Rust.
//!
//! A driver implements [`Driver`]: prepare one claim, unprepare one claim.
//! [`Plugin::builder`] registers it with kubelet, serves kubelet's calls, and publishes
//! the node's devices.
//!
//! # Who calls whom
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
//! * `server` opens the two sockets and serves them. `supervisor` keeps them open, opens
//!   new ones under new names if the files disappear, and removes the sockets of dead
//!   instances. `dra` turns a call, in either version of the API, into one operation for
//!   each claim, and waits for all of them until shortly before kubelet's deadline.
//! * `operations` owns the claims: one chain of operations for each UID, each in a task
//!   that outlives its call. It lets calls join, cancels, orders and retries. `attempt`
//!   reads the claim through a [`ClaimSource`], checks its UID and allocation, and calls
//!   the [`Driver`]; `device_checks` checks the devices that it returns.
//! * `slices` publishes. It is independent of the other two, except that it follows the
//!   registration: a kubelet that starts deletes every slice of its node, and of two
//!   instances in a rolling update the newest that kubelet has registered publishes.
//! * All of them report to the [`Observer`], from which a driver makes its metrics.
//!
//! # What depends on what
//!
//! Registration depends on nothing but the sockets: it works without an API server
//! and before the driver is ready. Prepare needs the API server, and waits for it
//! inside the call. Unprepare needs only the driver.
//!
//! # Cancellation
//!
//! Attempts are *detached* from calls: neither a cancelled call nor a passed deadline
//! drops a driver's future. An Unprepare of the claim, and the end of the grace period of
//! a shutdown, fire [`Context::cancellation`] and then wait for the future to end.
//! Dropping the [`Plugin`] fires it too, and waits for nothing.
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
