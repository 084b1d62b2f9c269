//! Plugins of the Node Resource Interface (NRI) of containerd and CRI-O.
#![forbid(unsafe_code)]

pub mod api;
mod backoff;
mod builder;
mod context;
mod error;
mod events;
mod inherited;
mod plugin;
mod plugin_service;
mod refusal;
mod runtime;
mod service;
mod session;
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
pub use plugin::{Changes, Creation, Plugin};
pub use refusal::Refusal;
pub use runtime::Runtime;
pub use service::{Late, Service, State};
pub use updates::Updates;
