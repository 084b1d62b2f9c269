//! Prepare and Unprepare of a claim on a node, in durable steps that survive a
//! crash anywhere. Synchronous: callers look facts up and run this on a thread
//! that may block.
//!
//! ```text
//! ClaimStatus ──► ChannelRequest::from_status      what the claim asks for (pure)
//!                        │
//! facts: domain exists?  Hardware (fabric, major)  looked up by the caller
//!                        ▼
//! NodeClaims::start      removes what an earlier boot left, aligns specs with records
//! NodeClaims::prepare    record Started ──► CDI spec ──► record Completed ──► devices for kubelet
//! NodeClaims::unprepare  CDI spec removed ──► record removed, or Aborted
//! NodeClaims::rebuild    after damage: restores the records that are lost
//! Absences               which records' claims are gone long enough to be unprepared
//! ```
//!
//! Only a Completed record holds a device. Which claim may hold which device is
//! decided in the commit that writes the record ([`dra_checkpoint::Store`]),
//! under the lock that a plugin of the Go driver on the same node takes too. A
//! CDI spec is removed only there, after seeing that no Completed record needs it.

#![forbid(unsafe_code)]

mod absence;
#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod crash_tests;
mod device_group;
mod error;
mod hardware;
pub mod lifecycle;
mod node_claims;
pub mod policy;
mod prepare;
mod rebuild;
mod request;
mod spec;
mod start;
#[cfg(test)]
mod test_objects;
mod text;
mod unprepare;

pub use absence::{ABSENT_FOR, Absences, Presence};
pub use device_group::{
    ConfigState, DeviceDetails, DeviceGroup, DeviceInfo, KubeletDevice, PreparedDevice,
};
pub use error::{Class, PrepareError, UnprepareError};
pub use hardware::Hardware;
pub use node_claims::NodeClaims;
pub use prepare::{Attempt, Prepared};
pub use rebuild::AllocatedClaim;
pub use request::ChannelRequest;
pub use start::{SpecReport, StartError, StartReport};
pub use text::{error_chain, with_hint};
