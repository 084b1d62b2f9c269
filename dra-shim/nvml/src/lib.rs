//! Finds the NVIDIA driver of a host and its programs, and opens checked sessions of its NVML
//! library.
//!
//! ```text
//! DriverRoot ──find_library──> libnvidia-ml.so.1 ──Nvml::open──> Session ──device──> Device
//!     │                                                                                 │
//!     │                                                  name, UUID, FabricInfo, or NvmlFailure
//!     │
//!     └──find_tool──> nvidia-smi ──RootProgram──> a command with the root's dynamic loader
//! ```
//!
//! * [`DriverRoot`] finds files below a root (`/`, `/run/nvidia/driver`, or a mount of
//!   either) without leaving it. It records why each path was rejected.
//! * [`Nvml`] loads the library and opens a [`Session`]. A session and its [`Device`]s make
//!   single calls. A failed call is a value ([`NvmlFailure`]) that names the function and
//!   NVML's code.
//! * [`NvmlProcess`] has the session in a process of its own, for programs that must survive a library that aborts
//!   or hangs. Each answer is a [`Fact`].
//! * [`EventProcess`] waits for the events of GPUs in such a process, which holds the GPUs until it is dropped.
//! * [`RootProgram`] runs a program of a driver root from outside, with that root's dynamic loader.
//! * [`command`] runs a program with a timeout.
//!
//! # Modules
//!
//! Each uses only modules above it.
//!
//! | purpose | modules |
//! |---|---|
//! | find a file | `not_found` (the error); `resolve` (links inside a root), [`elf`] (is a library complete?), `missing_link` (a library without its link); `driver_root` |
//! | call NVML | `nvml_failure`; `load_path` (load a replaced file), `current_call` (where a call hangs); `sys` (the C interface); `open_error`, `nvml` |
//! | call it in a process | `fact`; `process`; `event_process` |
//! | run a program | [`command`] (a program with a timeout), `root_program` (a program of a driver root) |
//!
//! The crate is synchronous. `unsafe` is in two places: NVML's C interface (`sys`), and a child's code between
//! fork and exec (two functions of `command`: chroot, and dying with the parent).

pub mod command;
mod current_call;
mod driver_root;
pub mod elf;
mod event_process;
mod fact;
mod load_path;
mod missing_link;
mod not_found;
mod nvml;
mod nvml_failure;
mod open_error;
mod process;
mod resolve;
mod root_program;
mod sys;

pub use driver_root::{DriverRoot, library_version};
pub use event_process::{EventProcess, EventStop, Registered};
pub use fact::{Fact, Failure};
pub use not_found::{DriverFileNotFound, RejectReason, RejectedPath};
pub use nvml::Nvml;
pub use nvml_failure::{NvmlCode, NvmlFailure};
pub use open_error::{NoLibrary, OpenError};
pub use process::{
    EventGpu, NvmlProcess, Property, Query, Report, SessionProgram, serve_if_started,
};
pub use root_program::{RootProgram, RootProgramError};
pub use sys::{
    Device, EventSet, FabricInfo, GpuEvent, GpuInstance, GpuInstanceProfile, MigDevice, Placement,
    Session,
};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
