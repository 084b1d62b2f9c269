//! Writes, reads, checks and applies CDI specs, with helpers for NVIDIA IMEX
//! channels.
//!
//! With the [Container Device Interface](https://github.com/cncf-tags/container-device-interface)
//! (CDI) a driver describes in a file, a *spec*, what a container that requests a device gets:
//! device nodes, mounts, environment variables, hooks. The devices of a spec have one *kind*,
//! `vendor/class`.
//!
//! # Writing
//!
//! One durable spec file for each claim of a DRA driver:
//!
//! ```text
//!  /proc/devices ── read_channel_major ──► Major ─────┐
//!  "channel-0" ──── from_device_name ────► ChannelId ─┴─► channel_edits ──► ContainerEdits
//!                                                                                │
//!  CDI directory ◄── ensure, remove, sweep ── ClaimSpecs ◄── ClaimSpec ◄─────────┘
//!  one file per claim                             └──► QualifiedName, for kubelet
//! ```
//!
//! [`Spec::new`] makes the same checks as runtimes do, and declares the lowest
//! version that the spec needs. [`Spec::warnings`] finds probable mistakes.
//! [`DriverParams`] and [`Capability`] are the NVIDIA driver's options for channels
//! and their device nodes.
//!
//! # Reading and applying
//!
//! With feature `inject`, the specs of any vendor:
//!
//! ```text
//!  JSON, YAML 1.1 ── Spec::parse ──► Spec
//!
//!  CDI directories ── Registry::load ──► Registry ──► resolve: the device of a name
//!                                               └──► explain: why that one, or none
//!  names, OciConfig, HostNodes, Registry ── Plan::new ──► Plan ── apply ──► OciConfig
//! ```
//!
//! An `OciConfig` is JSON; with feature `oci` also `oci_spec`'s type, and with feature `nri` a
//! container that a plugin of NRI adjusts (`NriContainer`).
//!
//! # Requests
//!
//! [`requested_channels`] finds the IMEX channels that a container requests in any way, for
//! programs that decide whether it may have them.
//!
//! # Conventions
//!
//! Everything is synchronous. Only [`ClaimSpecs`], `Registry`, `OsHost` and
//! functions named `read` or `read_...` access files.
//!
//! Errors have a `code()`, a stable word for events and metrics, and a `hint()`, advice for the
//! user.

#![forbid(unsafe_code)]

mod claim;
mod claim_specs;
#[cfg(feature = "inject")]
mod defined;
mod edits;
mod go_serde;
mod imex;
mod lint;
mod names;
#[cfg(feature = "nri")]
mod nri;
#[cfg(feature = "inject")]
mod oci_config;
#[cfg(feature = "inject")]
mod parse;
mod permissions;
#[cfg(feature = "inject")]
mod plan;
#[cfg(feature = "inject")]
mod registry;
mod spec;
mod version;

pub use claim::{ClaimDevice, ClaimSpec, ClaimUid, ClaimUidError};
pub use claim_specs::{ClaimSpecs, ClaimSpecsError, Ensured, Swept};
/// Feature `inject`.
///
#[cfg(feature = "inject")]
pub use defined::{DefinedNodes, UnresolvedNames};
/// Re-exported from `dra-common`.
pub use dra_common::{Class, FileKind};
pub use edits::{
    ContainerEdits, DeviceNode, DeviceType, Hook, IntelRdt, Mount, NetDevice, UnknownDeviceType,
};
pub use imex::*;
pub use lint::{Lint, Warning};
pub use names::{DeviceName, Kind, NameError, NamePart, Position, QualifiedName};
/// Feature `nri`.
///
#[cfg(feature = "nri")]
pub use nri::{Loss, LossReason, NriAdjustment, NriContainer, NriRelease};
/// Feature `inject`.
///
#[cfg(feature = "inject")]
pub use oci_config::{ConfigError, ContainerFacts, DeviceRule, Expected, OciConfig, PlannedDevice};
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
    IgnoredReason, LimitExceeded, LoadError, LoadLimits, MAX_SPEC_LEN, Registry, ResolveError,
    Resolved, SpecDir, SpecFile, Suggestion, Verdict,
};
pub use spec::{Device, EditFault, Spec, SpecError, SpecFault};
pub use version::{SpecVersion, UnknownVersion};

/// The README's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
