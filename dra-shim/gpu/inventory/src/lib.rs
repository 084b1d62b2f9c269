//! Facts of a host's NVIDIA GPUs as plain values, and the devices that a DRA driver publishes for them.
//!
//! ```text
//! NVML, in a process of its own ──┐
//! /proc/driver/nvidia/gpus ───────┼── read: joined by PCI address ──> Inventory ──> JSON
//! /sys/bus/pci/devices ───────────┘                                       │
//!                                                                 published: names,
//!                                                                 attributes, capacities
//! ```
//!
//! * [`read`] never fails: each property is a [`Fact`], known, absent or failed. A property that cannot be read
//!   costs that property; a GPU whose driver hangs or aborts costs the facts that NVML has of this GPU.
//! * [`Inventory`] is plain data. Its JSON is what `cdi-gen gpus --json` prints and what the mock of NVML loads.
//! * [`published`] derives names, attributes and capacities as NVIDIA's driver `gpu.nvidia.com` publishes them.
//!
//! # Modules
//!
//! Each uses only modules above it.
//!
//! | purpose | modules |
//! |---|---|
//! | the data | `pci_address`; `facts` |
//! | read it | `host_files` (/proc and sysfs), `nvml_facts` (NVML); `join`; `read` |
//! | publish it | `nvml_names` (NVML's numbers as text), `mig_profile`; [`published`] |
//! | give it to a container | `nodes` (device nodes by number) |

#![forbid(unsafe_code)]

mod facts;
mod host_files;
mod join;
mod mig_profile;
mod nodes;
mod nvml_facts;
mod nvml_names;
mod pci_address;
pub mod published;
mod read;

pub use facts::{DriverFacts, DrmNode, GpuFacts, HostFacts, Inventory, MigFacts, MigProfile};
pub use host_files::module_version;
pub use nodes::{MissingNode, Node, common_nodes, gpu_nodes, mig_nodes};
pub use nvml_names::{addressing_mode, architecture, brand, recovery_action};
pub use nvml_session::{
    Fact, Failure, GpuInstance, GpuInstanceProfile, MigDevice, NvmlCode, Placement,
    serve_if_started,
};
pub use pci_address::{InvalidPciAddress, PciAddress};
pub use read::{Sources, read};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
