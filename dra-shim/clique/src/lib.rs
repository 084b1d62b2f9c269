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
//! The modules, in the order in which the data passes them:
//!
//! | from | to | through |
//! |---|---|---|
//! | a root | a file | `root` has the places; `resolve` follows links inside the root, `elf` sees whether a library is whole and this machine's, `unlinked` finds the one that lacks its link |
//! | a library | [`Gpu`]s | `probe` makes one read; `reload` has the file opened that is there now, `sys` calls the C interface, `call` says which call is under way |
//! | [`Gpu`]s | [`Fabric`] | `gpu`, `clique`, `health` and `nvml` are what one GPU says; `fabric` folds them, `unsettled` says what is still open, `groups` tells many GPUs in one line |
//! | reads | [`Reading`]s | `watch` |
//! | a host's program | its answer | `host_imex` asks, [`command`] runs it under a deadline, `imex_peers` is the JSON of its peers |
//! | what others wrote | one line | `line`, wherever a name or an output is shown |
//!
//! Everything is synchronous. `unsafe` is confined to two places: NVML's C
//! interface (`sys`), and entering the host's root (one function of `command`).

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
