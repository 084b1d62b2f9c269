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
//! * [`DriverRoot`] finds files below a root (`/`, `/run/nvidia/driver`, or a mount of
//!   either) without leaving it. It records why each path was rejected.
//! * [`NvmlProbe`] loads the library, opens one NVML session per read and reads
//!   the fabric state of every GPU. Its trait [`FabricProbe`] lets callers test with a fake.
//! * [`Fabric`] combines the GPUs into one value. A fabric that is coming up, broken or absent
//!   is a value too. Each value has a one-line reason (its `Display`), a stable
//!   [`code`](Fabric::code) and a [`hint`](Fabric::hint).
//! * [`FabricWatch`] repeats the read on its own thread, so that a driver that hangs blocks
//!   only that thread. It keeps a [`NodeFabricState`]; the table of its transitions is in the
//!   repository's ARCHITECTURE.md, under "States".
//! * [`HostImex`] checks whether the host IMEX daemon (`nvidia-imex`) is ready.
//! * [`RootProgram`] runs a program of a driver root from outside, with that root's dynamic loader.
//!
//! # Modules
//!
//! Each uses only modules above it.
//!
//! | purpose | modules |
//! |---|---|
//! | find a file | `not_found` (the error); `resolve` (links inside a root), `elf` (is a library complete?), `missing_link` (a library without its link); `driver_root` |
//! | one GPU | `clique_id`, `health`, `nvml_failure`; `gpu` |
//! | read NVML | `load_path` (load a replaced file), `current_call` (where a read hangs); `sys` (the C interface); `probe_error`, `probe` |
//! | the node | `node_state` (the state machine); `gpu_groups` (many GPUs in one line), `pending`; `fabric` |
//! | watch it | `watch_config`, `reading`; `watch` |
//! | query the daemon | [`command`] (a program with a timeout), `root_program` (a program of a driver root); `host_imex` |
//!
//! The crate is synchronous. `unsafe` is in two places: NVML's C interface (`sys`), and a child's code between
//! fork and exec (two functions of `command`: chroot, and dying with the parent).

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
