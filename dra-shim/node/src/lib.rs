//! A claim's life on a node, in durable steps. Synchronous: callers look facts
//! up and run this on a thread that may block.
//!
//! ```text
//! ClaimStatus ──► ChannelRequest::of          what the claim asks for (pure)
//!                        │
//! facts: domain found?  World (fabric, major)  looked up by the caller
//!                        ▼
//! Node::prepare    Started ──► CDI file ──► Completed ──► devices for kubelet
//! Node::unprepare  CDI file removed ──► record removed, or Aborted
//! Node::start      boot id, then records against files
//! Absences         which records' claims are gone long enough to undo
//! ```
//!
//! Only a Completed record holds a device. Who may hold what is decided in the
//! commit that writes the record ([`dra_checkpoint::Store`]), under the lock
//! that a Go plugin on the same node takes too. A CDI file is removed only
//! there, after seeing that no Completed record needs it.

#![forbid(unsafe_code)]

mod absence;
#[cfg(test)]
mod crash_tests;
mod error;
mod node;
mod payload;
mod request;
mod start;
#[cfg(test)]
mod test_objects;
mod world;

pub use absence::{ABSENT_FOR, Absences, Presence};
pub use error::{Class, PrepareError, UnprepareError};
pub use node::{Attempt, Node, Prepared};
pub use payload::{ConfigState, Device, Group, Held, Info, Slot};
pub use request::ChannelRequest;
pub use start::{LiveClaim, StartError, Started};
pub use world::{World, with_hint, with_sources};
