//! The node side of Kubernetes Dynamic Resource Allocation, for drivers in Rust.
//!
//! A driver implements [`Driver`]: prepare one claim, unprepare one claim.
//! [`Plugin::builder`] takes it from there.
//!
//! # How data flows
//!
//! ```text
//!            kubelet                                       API server
//!   plugins_registry │ plugins/DRIVER                   ▲             ▲
//!        │           │            │                     │ GET claim   │ ResourceSlice
//!        ▼           ▼            ▼                     │             │ GET node
//!   registration    rpc         health                  │             │
//!   (who is there)   │ claims   (stream) ◄─ watch       │             │
//!        │           ▼                                  │             │
//!        │          work ──► attempt ──► ClaimSource ───┘             │
//!        │          chain of   one try:      │ Claim                  │
//!        │          each UID   panics end    ▼                        │
//!        │          retries    here        Driver                     │
//!        │                                                            │
//!        └─ Registration (watch) ──► slices: plan and publisher ──────┘
//!                                      ▲
//!                                      └── Desired (watch)
//! ```
//!
//! * `rpc` turns a call in either version of the service into one ticket per claim
//!   and waits for all of them, at most until shortly before kubelet's deadline.
//! * `work` owns the claims: one chain of operations per UID, each in a task that
//!   outlives its call. It retries, joins, cancels and fences.
//! * `attempt` reads the claim through a [`ClaimSource`], checks UID and
//!   allocation, and calls the [`Driver`]; `answer` checks what that says.
//! * `sockets` and `instance` open the two sockets and serve them; `supervisor`
//!   keeps an instance open, opens a new one under new names if its files go, and
//!   lets `sweep` remove what dead predecessors left.
//! * Each of them tells the [`Observer`] what it does; metrics are made there.
//! * `slices` is independent of all that, but for kubelet's Notify: a kubelet that
//!   starts deletes every slice of its node, and of two instances of a rolling
//!   update the newest that kubelet has registered publishes.
//!
//! # What depends on what
//!
//! Registration depends on nothing but the sockets: it works without an API server
//! and before the driver is ready. Prepare needs the API server, and waits for it
//! inside the call. Unprepare needs the driver only.
//!
//! # Cancellation
//!
//! Work is *detached*: neither a cancelled call nor a passed deadline drops a
//! driver's future. An Unprepare of the claim and the end of a shutdown's grace
//! period fire the token in [`Call`], and then wait for the future to end. A dropped
//! [`Plugin`] fires it too, and waits for nothing.
#![forbid(unsafe_code)]

mod answer;
mod attempt;
mod builder;
mod call;
mod claim;
mod convert;
mod driver;
mod health;
mod instance;
mod limit;
mod names;
mod observer;
mod plugin;
mod proto;
mod registration;
mod rpc;
mod slices;
mod sockets;
mod source;
mod supervisor;
mod sweep;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod work;

pub use builder::{Builder, StartError};
pub use call::Call;
pub use claim::{Allocated, Claim, ClaimObjectError, ClaimRef, Config, ConfigSource};
pub use driver::{ClaimError, Class, Device, Driver};
pub use health::{DeviceHealth, Health};
pub use observer::{CallEnd, Method, Observer};
pub use plugin::Plugin;
pub use registration::Registration;
pub use slices::{Desired, Dropped, Publication};
pub use sockets::SocketError;
pub use source::{ClaimSource, GetClaimError, KubeClaims};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
