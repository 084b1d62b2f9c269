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
//! Everything is synchronous, and only [`ClaimSpecs`] and
//! [`read_channel_major`] touch files.
//!
//! Errors have a stable `code()` and a `hint()` that says what to do.

#![forbid(unsafe_code)]

mod channel;
mod claim;
mod claim_specs;
mod edits;
mod major;
mod names;
mod permissions;
mod spec;
mod version;

pub use channel::{CHANNEL_DIR, ChannelId, ChannelIdError, channel_edits};
pub use claim::{ClaimDevice, ClaimUid, ClaimUidError};
pub use claim_specs::{Asserted, ClaimSpecs, ClaimSpecsError, Swept};
/// What a caller may do about an error.
pub use durable_file::Class;
pub use edits::{ContainerEdits, DeviceNode, DeviceType, EditFault, Hook, Mount};
pub use major::{
    CHANNEL_DRIVER, Major, MajorError, MajorOutOfRange, PROC_DEVICES, ReadMajorError,
    channel_major, read_channel_major,
};
pub use names::{DeviceName, Kind, NameError, NamePart, Position, QualifiedName};
pub use permissions::{Permissions, UnknownPermission};
pub use spec::{Device, Spec, SpecError};
pub use version::{SpecVersion, UnknownVersion};

/// The README's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
