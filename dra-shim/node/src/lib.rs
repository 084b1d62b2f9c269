//! Crash-safe Prepare and Unprepare of a DRA driver's claims on one node. Synchronous: the caller gathers
//! the facts and calls on a thread that may block.
//!
//! A driver adds its [`Devices`]: which claim may have which device, what a record holds, and what a claim's
//! CDI spec contains. This crate adds the records (`dra-checkpoint`), the spec files (`imex-cdi`), and the order in
//! which both are changed.
//!
//! ```text
//! NodeClaims::start         removes the state of an earlier boot, aligns specs with records
//! NodeClaims::prepare       record Started ──► CDI spec ──► record Completed ──► devices for kubelet
//! NodeClaims::unprepare     CDI spec removed ──► record removed, or Aborted
//! NodeClaims::repair_specs  rewrites specs that were removed externally
//! NodeClaims::rebuild       after damage: restores the lost records
//! AbsenceTracker            which recorded claims were deleted long enough ago to be unprepared
//! ```
//!
//! The table [`lifecycle`] has the durable steps of every call from every state of a claim.
//!
//! Only a Completed record holds a device. [`Devices::check`] decides which claim may hold which device, in
//! the commit that writes the record ([`dra_checkpoint::Store`]). The commit runs under a lock that
//! the Go driver's plugin on the same node takes, too. A CDI spec is removed only inside such a
//! commit.
//!
//! A driver whose claims change hardware ([`Devices::change`]) changes it between the Started record and the spec, and
//! restores it between the spec's removal and the record's. It keeps its own notes of what is changed.

#![forbid(unsafe_code)]

mod absence_tracker;
mod devices;
mod error;
pub mod lifecycle;
mod moment;
mod node_claims;
mod prepare;
mod rebuild;
mod repair;
mod spec;
mod start;
mod unprepare;

pub use absence_tracker::{ABSENT_FOR, AbsenceTracker, Presence};
pub use devices::{Changed, ChangedHardware, Devices, Restored};
pub use error::{PrepareError, UnprepareError};
pub use moment::Moment;
pub use node_claims::{NodeClaims, WriterError};
pub use prepare::{Begun, Prepare, Started};
pub use rebuild::{AllocatedClaim, RebuildReport};
pub use spec::RepairReport;
pub use start::{StartError, StartReport};
