//! Publishing the node's devices: `ResourceSlice`s in a pool named after the node, kept
//! as the driver wants them, whoever else changes them.
//!
//! ```text
//! DesiredPool (watch) ──┐
//! SliceWatch of the     ├─► Schedule ─► Election ─► GET node ─► plan ──► Requests
//! node (SliceCache) ────┤      ▲       (lock files)            (pure:   (stage by stage)
//! kubelet's Notify ─────┘      │                               layout,     │
//!                              │                               StoredForms)│
//!                              └──────────── back-off on errors ───────────┘
//! ```
//!
//! # Several instances
//!
//! During a rolling update two instances of a driver share the data directory, and may
//! want different devices. [`election`] decides which one publishes: the newest that
//! kubelet has registered; until there is one, the newest. The other stands by: it
//! writes nothing, checks once a second, and takes over within about a second after the
//! newer one ends, also by `kill -9`. So a failed update leaves the old devices
//! published, and the devices of a new version appear only once kubelet can call it.
//!
//! Limits: instances on different data directories, and other implementations of the
//! protocol under the same driver name, do not take part in the election. With the same
//! devices they converge all the same, since a slice that is right is left alone,
//! whoever wrote it; with different devices each reverts the other's changes. A newer
//! instance that hangs stays elected.

mod cache;
mod election;
mod error;
mod layout;
mod plan;
mod publisher;
mod requests;
mod schedule;
mod slice_watch;
mod state;
mod stored_form;

#[cfg(test)]
mod tests;

pub(crate) use publisher::Publisher;
pub use state::{DesiredPool, DroppedField, Publication};
