//! A kubelet plugin as a process, kubelet's calls to it, and their floors.

pub(crate) mod calls;
pub(crate) mod claims;
mod floor;
mod process;
pub(crate) mod report;

pub(crate) use calls::{Call, Calls};
pub(crate) use process::{Driver, KUBELET_ROOT, Memory, Plugin};
