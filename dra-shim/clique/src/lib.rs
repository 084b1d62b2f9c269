//! Finds the NVIDIA driver of a host, reads each GPU's NVLink fabric state and names the clique.
//!
//! ```text
//! DriverRoot ──finds──> libnvidia-ml.so.1 ──NvmlProbe──> [Gpu] ──Fabric::of──> Fabric
//!     │                                        ▲                                 │
//!     │                            FabricWatch asks again and again        one row of
//!     │                            and keeps the last Reading              what to do
//!     └───finds──> nvidia-imex-ctl ──HostImex::{ready, connections}──> Ok or why not
//! ```
//!
//! * [`DriverRoot`] resolves files below a root (`/`, `/run/nvidia/driver`, a
//!   mount of either) without leaving it, and says of each candidate why not.
//! * [`NvmlProbe`] loads that library, opens one NVML session per read and asks
//!   every GPU for its fabric state. [`FabricProbe`] is its trait, so that
//!   callers test with a fake.
//! * [`Fabric`] folds the GPUs into one value. A fabric that is coming up,
//!   broken or absent is a value too: each has a one-line reason (its
//!   `Display`), a stable [`code`](Fabric::code) and a [`hint`](Fabric::hint).
//! * [`FabricWatch`] repeats the read on a thread of its own, so a library that
//!   never returns costs that thread and nothing else.
//! * [`HostImex`] asks the host's own `nvidia-imex` whether it is ready, and
//!   which peers it reaches.
//!
//! Everything is synchronous. `unsafe` is confined to two modules: NVML's C
//! interface, and entering the host's root.

mod call;
mod clique;
pub mod command;
mod elf;
mod fabric;
mod gpu;
mod groups;
mod health;
mod host_imex;
mod imex_peers;
mod line;
mod nvml;
mod probe;
mod reload;
mod resolve;
mod root;
mod sys;
mod unlinked;
mod unsettled;
mod watch;

pub use clique::{CliqueId, ClusterUuid};
pub use fabric::{Clique, DegradedGpu, Fabric, NoClique};
pub use gpu::{FabricState, Gpu, GpuRef};
pub use health::{Health, HealthSummary};
pub use host_imex::{HostImex, HostImexError};
pub use imex_peers::{ImexConnection, ImexLink, ImexNode};
pub use nvml::{NvmlCode, NvmlFailure};
pub use probe::{FabricProbe, NoLibrary, NvmlProbe, ProbeError};
pub use root::{DriverRoot, NotFound, Reason, Rejected};
pub use unsettled::{Unsettled, UnsettledGpu};
pub use watch::{FabricWatch, Reading, WatchConfig};

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
