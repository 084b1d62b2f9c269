//! Publishes the node's devices as `ResourceSlice`s in a pool named after the node, and
//! reverts changes by others.
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
//! publish different devices. [`election`] decides which one publishes: the newest
//! registered instance, or the newest if none is registered. The other is on standby: it
//! writes nothing and checks the election once a second. It takes over within about a
//! second after the newer one ends, also by `kill -9`. So a failed update leaves the old
//! devices published, and the devices of a new version appear only once kubelet can call it.
//!
//! Limits: instances on different data directories, and other implementations of the
//! protocol under the same driver name, do not take part in the election. If they have the
//! same devices, they converge: a correct slice is not rewritten. If they have different
//! devices, each reverts the other's changes. A newer instance that hangs remains elected.

mod cache;
mod election;
mod error;
mod layout;
mod newer_effects;
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
