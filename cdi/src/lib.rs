//! CDI specs for NVIDIA IMEX channels: model, edits, durable per-claim files.
//!
//! The [Container Device Interface](https://github.com/cncf-tags/container-device-interface)
//! lets a driver describe, in a file, what a container gets that asks for a
//! device. This crate writes such files for the claims of a DRA driver:
//!
//! ```text
//!  /proc/devices ── read_channel_major ──► Major ─────┐
//!  "channel-0" ──── from_device_name ────► ChannelId ─┴─► channel_edits ──► ContainerEdits
//!                                                                                │
//!  CDI directory ◄── assert, remove, sweep ── ClaimSpecs ◄── ClaimDevice ◄───────┘
//!  one file per claim                             └──► QualifiedName, for kubelet
//! ```
//!
//! [`Spec::new`] checks a spec as runtimes do and states the lowest version that
//! it needs. [`DriverParams`] and [`Capability`] say what the NVIDIA driver was
//! told about channels and their nodes.
//!
//! With feature `inject` it also reads what any driver wrote:
//!
//! ```text
//!  JSON, YAML 1.1 ── Spec::parse ──► Spec ──► warnings, needs: what nobody else tells
//!
//!  CDI directories ── Registry::load ──► Registry ──► devices, resolve: the file that wins
//!                                               └──► explain: why it does, or why none does
//!  names, OciConfig, HostNodes, Registry ── Plan::new ──► Plan ── apply ──► OciConfig
//! ```
//!
//! Everything is synchronous. Files are touched by [`ClaimSpecs`], `Registry`,
//! `OsHost` and what is called `read` or `read_...`, and by nothing else.
//!
//! Errors have a stable `code()` and a `hint()` that says what to do.

#![forbid(unsafe_code)]

mod bounded_read;
mod capability;
mod channel;
mod claim;
mod claim_specs;
mod driver_file;
mod edits;
mod go_serde;
mod lint;
mod major;
mod names;
#[cfg(feature = "inject")]
mod oci_config;
mod one_line;
mod params;
#[cfg(feature = "inject")]
mod parse;
mod permissions;
#[cfg(feature = "inject")]
mod plan;
#[cfg(feature = "inject")]
mod registry;
mod spec;
mod version;

pub use bounded_read::FileKind;
pub use capability::{Capability, IMEX_MGMT_CAPABILITY};
pub use channel::{CHANNEL_DIR, ChannelId, ChannelIdError, channel_edits, channel_node};
pub use claim::{ClaimDevice, ClaimUid, ClaimUidError};
pub use claim_specs::{ClaimSpecs, ClaimSpecsError, Ensured, Swept};
pub use driver_file::{DriverFileError, DriverTextError};
/// What a caller may do about an error.
pub use durable_file::Class;
pub use edits::{
    ContainerEdits, DeviceNode, DeviceType, Hook, IntelRdt, Mount, NetDevice, UnknownDeviceType,
};
pub use lint::{Lint, Warning};
pub use major::{
    CHANNEL_DRIVER, Major, MajorError, MajorOutOfRange, PROC_DEVICES, ReadMajorError,
    channel_major, read_channel_major, read_device_list,
};
pub use names::{DeviceName, Kind, NameError, NamePart, Position, QualifiedName};
/// Feature `inject`.
///
#[cfg(feature = "inject")]
pub use oci_config::{ConfigError, ContainerFacts, DeviceRule, Expected, OciConfig, PlannedDevice};
pub use params::{DRIVER_PARAMS, DriverParams};
pub use permissions::{Permissions, UnknownPermission};
/// Feature `inject`.
///
#[cfg(feature = "inject")]
pub use plan::{Change, HostDevice, HostNode, HostNodes, OsHost, Plan, PlanError, Source, Step};
/// Feature `inject`.
///
#[cfg(feature = "inject")]
pub use registry::{
    Candidate, Conflict, DEFAULT_DIRS, DirError, DirState, Evidence, Explanation, IgnoredFile,
    IgnoredReason, LoadError, MAX_SPEC_LEN, Registry, ResolveError, Resolved, SpecDir, SpecFile,
    Suggestion, Verdict,
};
pub use spec::{Device, EditFault, Spec, SpecError, SpecFault};
pub use version::{SpecVersion, UnknownVersion};

/// The README's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
