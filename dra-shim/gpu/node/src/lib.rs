//! Crash-safe Prepare and Unprepare of GPU claims on one node. Synchronous: the caller gathers the facts and calls
//! on a thread that may block.
//!
//! ```text
//! Inventory, DriverFiles ──► HostGpus              the node's devices: hardware, CDI edits (pure)
//! ClaimStatus ─────────────► GpuRequest            what the claim requests (pure)
//!                              │
//!                              ▼
//! Gpus: node_claims::Devices   which claim may have which hardware, records, specs
//! NodeClaims                   the order of records and specs: see node-claims
//! Effects ──► Hardware         what claims change on GPUs: journals, before and undone after
//! ```
//!
//! Only for the driver `gpu.nvidia.com` and CDI devices of the kind `k8s.gpu.nvidia.com/claim`; the records have the
//! Go driver's format. Claims are compared by hardware ([`Unit`]), not by device names: a GPU's name may change.
//!
//! A claim may change the time slice of its GPUs. The Go driver's records cannot say that it is about to, so there is a
//! journal for each such claim in a directory of its own; the table [`lifecycle`] has its steps.

#![forbid(unsafe_code)]

#[cfg(test)]
mod crash_tests;
mod effects;
mod error;
mod gpus;
mod group;
mod hardware;
mod host_gpus;
mod request;
#[cfg(test)]
mod test_objects;
mod unit;

pub use effects::{EffectError, Effects, JOURNALS, JournalFile, NotRepaired, lifecycle};
pub use error::PrepareError;
pub use gpus::{Gpus, HeldDevice, NodeClaims, PlannedGpus, WantedGpus, held_devices, prepared};
pub use group::{
    ConfigState, GpuGroup, GpuInfo, HeldGpu, HeldMig, HeldVfio, MigInfo, PreparedDevice, VfioInfo,
};
pub use hardware::{Hardware, HardwareError};
pub use host_gpus::{GivenDevice, HostGpus, HostPaths};
pub use request::{GpuRequest, RequestedDevice};
pub use unit::Unit;
