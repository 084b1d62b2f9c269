//! Crash-safe Prepare and Unprepare of IMEX channel claims on one node.
//! Synchronous: the caller gathers the facts and calls on a thread that may
//! block.
//!
//! ```text
//! ClaimStatus ──► ChannelRequest::from_status      what the claim asks for (pure)
//!                        │
//! facts: DomainState, Hardware (fabric, major)     looked up by the caller
//!                        ▼
//! NodeClaims::start         removes what an earlier boot left, aligns specs with records
//! NodeClaims::prepare_all   records Started ──► CDI specs ──► records Completed ──► devices for kubelet
//! NodeClaims::unprepare     CDI spec removed ──► record removed, or Aborted
//! NodeClaims::repair_specs  writes the specs that somebody else has removed
//! NodeClaims::rebuild       after damage: restores the records that are lost
//! AbsenceTracker            which recorded claims are gone long enough to be unprepared
//! ```
//!
//! Two tables decide, and the code asks them: [`lifecycle`] has the durable steps
//! of every call from every state of a claim, [`policy`] what the state of the
//! hardware allows. Both are drawn in `ARCHITECTURE.md`, under "States".
//!
//! Only a Completed record holds a device. Which claim may hold which device is
//! decided by [`Guard`] in the commit that writes the record ([`dra_checkpoint::Store`]),
//! under the lock that a plugin of the Go driver on the same node takes too. A
//! CDI spec is removed only inside such a commit.

#![forbid(unsafe_code)]

mod absence_tracker;
mod begin_prepare;
#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod crash_tests;
mod device_group;
mod end_prepare;
mod error;
mod guard;
#[cfg(test)]
mod guard_model_tests;
mod hardware;
mod held_channels;
pub mod lifecycle;
mod moment;
mod node_claims;
pub mod policy;
mod prepare;
mod rebuild;
mod repair;
mod request;
#[cfg(test)]
mod sequence_tests;
mod shared_marker;
mod spec;
mod start;
#[cfg(test)]
mod test_objects;
mod text;
#[cfg(test)]
mod two_instances_tests;
mod unprepare;

pub use absence_tracker::{ABSENT_FOR, AbsenceTracker, Presence};
pub use device_group::{
    ConfigState, DeviceDetails, DeviceGroup, DeviceInfo, KubeletDevice, PreparedDevice,
};
pub use error::{Class, PrepareError, UnprepareError};
pub use guard::{DomainState, Guard, Holding};
pub use hardware::Hardware;
pub use moment::Moment;
pub use node_claims::{NodeClaims, WriterError};
pub use prepare::{PrepareInput, Prepared};
pub use rebuild::AllocatedClaim;
pub use request::ChannelRequest;
pub use shared_marker::{SHARED_MARKER, SharedMarker};
pub use spec::RepairReport;
pub use start::{SpecReport, StartError, StartReport};
pub use text::{error_chain, with_hint};
