//! What users, charts and programs agree on for the DRA driver `gpu.nvidia.com`: the opaque configs of claims, names,
//! feature gates, settings.
//!
//! ```text
//! ClaimStatus ──► configured_devices ──► ConfiguredDevice: a device, its type, its settings
//!                   │
//!                   ├─ OpaqueConfig::decode_strict   text to fields
//!                   ├─ OpaqueConfig::sharing         values checked, defaults filled in
//!                   └─ refused here                  settings that this version cannot apply
//! ```
//!
//! The crate does no I/O: it contains data types and pure functions. Names, JSON, precedence and most error texts are
//! those of NVIDIA's Go driver. It differs where that driver ignores what a claim asks for:
//!
//! * A config that names a request of alternatives (`main`) also applies to the chosen one (`main/big`), as Kubernetes
//!   defines it.
//! * `mpsConfig` with time slicing is an error also for a MIG device.
//! * `timeSlicingConfig: {}` means the default interval.
//! * Settings are never applied to a device that is allocated with `adminAccess`.
//! * Two shares of one device with different settings are an error also within one claim.

#![forbid(unsafe_code)]

mod configured_device;
mod consumable_shares;
mod error;
pub mod names;
mod opaque;
mod sharing;

pub use compute_domain_api::gates::{FeatureGates, Gate, GateError};

pub use configured_device::{ConfiguredDevice, configured_devices, recorded_devices};
pub use consumable_shares::{ConsumableShares, ConsumableSharesError};
pub use error::ConfigError;
pub use opaque::{MpsConfig, OpaqueConfig, SharingConfig, TimeSlicingConfig};
pub use sharing::{Sharing, TimeSlice};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
