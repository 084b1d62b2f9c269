//! Finds the NVIDIA driver of a host, reads each GPU's NVLink fabric state through
//! NVML, and names the clique that the host belongs to: the GPUs of one NVLink
//! fabric that can map each other's memory.
//!
//! ```text
//! DriverRoot ──find_library──> libnvidia-ml.so.1
//!     │                               │
//!     │                    FabricProbe::read (NvmlProbe)
//!     │                               │
//!     │                            [Gpu] ──Fabric::from_gpus──> Fabric
//!     │                                                            │
//!     │                    FabricWatch reads again and again: NodeFabricState
//!     │
//!     └──find_tool──> nvidia-imex-ctl ──HostImex::check_ready──> Ok or HostImexError
//! ```
//!
//! * [`DriverRoot`] finds files below a root (`/`, `/run/nvidia/driver`, a mount
//!   of either) without leaving it, and records why each path was rejected.
//! * [`NvmlProbe`] loads the library, opens one NVML session per read and reads
//!   the fabric state of every GPU. [`FabricProbe`] is its trait, so that callers
//!   can test with a fake.
//! * [`Fabric`] combines the GPUs into one value. A fabric that is coming up,
//!   broken or absent is a value too: each has a one-line reason (its
//!   `Display`), a stable [`code`](Fabric::code) and a [`hint`](Fabric::hint).
//! * [`FabricWatch`] repeats the read on a thread of its own, so that a driver
//!   that never returns costs that thread and nothing else. It keeps a
//!   [`NodeFabricState`]; the table of its transitions is in the repository's
//!   ARCHITECTURE.md, under "States".
//! * [`HostImex`] asks the host IMEX daemon (`nvidia-imex`) whether it is ready.
//! * [`RootProgram`] runs a program of a driver root by that root's own dynamic loader, outside of it.
//!
//! # Modules
//!
//! Each uses only those above it, and the leaf `printable`, which makes foreign
//! text fit for a message.
//!
//! | what | modules |
//! |---|---|
//! | find a file | `not_found` (the error); `resolve` (links inside a root), `elf` (is a library complete?), `missing_link` (a library without its link); `driver_root` |
//! | one GPU | `clique_id`, `health`, `nvml_failure`; `gpu` |
//! | read NVML | `load_path` (load a replaced file), `current_call` (where a read hangs); `sys` (the C interface); `probe_error`, `probe` |
//! | the node | `node_state` (the state machine); `gpu_groups` (many GPUs in one line), `pending`; `fabric` |
//! | watch it | `watch_config`, `reading`; `watch` |
//! | ask the daemon | [`command`] (a program under a deadline), `root_program` (one of a driver root); `host_imex` |
//!
//! Everything is synchronous. `unsafe` is confined to two places: NVML's C
//! interface (`sys`), and what a child does between fork and exec (two functions of `command`: entering the
//! host's root, dying with its parent).

mod clique_id;
mod clique_in_force;
pub mod command;
mod current_call;
mod driver_root;
mod elf;
mod fabric;
mod gpu;
mod gpu_groups;
mod health;
mod host_imex;
mod load_path;
mod missing_link;
mod node_state;
mod not_found;
mod nvml_failure;
mod pending;
mod probe;
mod probe_error;
mod reading;
mod resolve;
mod root_program;
mod sys;
mod watch;
mod watch_config;

pub use clique_id::{CliqueId, ClusterUuid};
pub use driver_root::{DriverRoot, library_version};
pub use fabric::{Clique, DegradedGpu, Fabric, NoClique};
pub use gpu::{Gpu, GpuFabricState, GpuRef};
pub use health::{Health, HealthSummary};
pub use host_imex::{HostImex, HostImexError};
pub use node_state::{FabricEvent, NodeFabricState};
pub use not_found::{DriverFileNotFound, RejectReason, RejectedPath};
pub use nvml_failure::{NvmlCode, NvmlFailure};
pub use pending::{Pending, PendingGpu};
pub use probe::{FabricProbe, NvmlProbe};
pub use probe_error::{NoLibrary, ProbeError};
pub use reading::Reading;
pub use root_program::{RootProgram, RootProgramError};
pub use watch::FabricWatch;
pub use watch_config::WatchConfig;

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
