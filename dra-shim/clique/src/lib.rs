//! Finds the NVIDIA driver of a host, reads each GPU's NVLink fabric state through NVML, and
//! determines the host's clique: the GPUs of one NVLink fabric that can map each other's memory.
//!
//! ```text
//! DriverRoot ──find_library──> libnvidia-ml.so.1
//!     │                               │
//!     │                    FabricProbe::read (NvmlProbe)
//!     │                               │
//!     │                            [Gpu] ──Fabric::from_gpus──> Fabric
//!     │                                                            │
//!     │                    FabricWatch reads periodically: NodeFabricState
//!     │
//!     └──find_tool──> nvidia-imex-ctl ──HostImex::check_ready──> Ok or HostImexError
//! ```
//!
//! * [`DriverRoot`], of [`nvml_session`], finds the driver's files.
//! * [`NvmlProbe`] opens one NVML session per read and reads
//!   the fabric state of every GPU. Its trait [`FabricProbe`] lets callers test with a fake.
//! * [`Fabric`] combines the GPUs into one value. A fabric that is coming up, broken or absent
//!   is a value too. Each value has a one-line reason (its `Display`), a stable
//!   [`code`](Fabric::code) and a [`hint`](Fabric::hint).
//! * [`FabricWatch`] repeats the read on its own thread, so that a driver that hangs blocks
//!   only that thread. It keeps a [`NodeFabricState`]; the table of its transitions is in the
//!   repository's ARCHITECTURE.md, under "States".
//! * [`HostImex`] checks whether the host IMEX daemon (`nvidia-imex`) is ready.
//!
//! # Modules
//!
//! Each uses only modules above it.
//!
//! | purpose | modules |
//! |---|---|
//! | one GPU | `clique_id`, `health`; `gpu` |
//! | read NVML | `probe` |
//! | the node | `node_state` (the state machine); `gpu_groups` (many GPUs in one line), `pending`; `fabric` |
//! | watch it | `watch_config`, `reading`; `watch` |
//! | query the daemon | `host_imex` |
//!
//! The crate is synchronous. What the other crates of this repository need of [`nvml_session`] is exported here, too.

mod clique_id;
mod clique_in_force;
mod fabric;
mod gpu;
mod gpu_groups;
mod health;
mod host_imex;
mod node_state;
mod pending;
mod probe;
mod reading;
mod watch;
mod watch_config;

pub use clique_id::{CliqueId, ClusterUuid};
pub use fabric::{Clique, DegradedGpu, Fabric, NoClique};
pub use gpu::{Gpu, GpuFabricState, GpuRef};
pub use health::{Health, HealthSummary};
pub use host_imex::{HostImex, HostImexError};
pub use node_state::{FabricEvent, NodeFabricState};
pub use nvml_session::{
    DriverFileNotFound, DriverRoot, NoLibrary, NvmlCode, NvmlFailure, OpenError as ProbeError,
    RejectReason, RejectedPath, RootProgram, RootProgramError, command, library_version,
};
pub use pending::{Pending, PendingGpu};
pub use probe::{FabricProbe, NvmlProbe};
pub use reading::Reading;
pub use watch::FabricWatch;
pub use watch_config::WatchConfig;

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
