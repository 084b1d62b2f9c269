//! The ComputeDomain API: names, feature gates, IMEX settings, opaque configs, CRD types.
//!
//! ```text
//! flags, environment, chart ── ImexOptions ──resolve──> Settings     (both daemons, at start)
//! opaque.parameters (JSON)  ── OpaqueConfig::decode_strict           (Prepare)
//! checkpointed parameters   ── StoredConfig::decode                  (Unprepare)
//! ComputeDomainChannelConfig ─ to_parameters ──> claim template      (controller)
//! ComputeDomain             ── crd::ComputeDomain                    (feature `crd`)
//! ```
//!
//! Everything here is a value or a pure function of text. What is written is what the Go driver
//! writes and reads: same names, same JSON, same gate spellings.

mod domain_id;
pub mod gates;
pub mod names;
mod opaque;
mod settings;

#[cfg(feature = "crd")]
pub mod crd;

pub use domain_id::{DomainId, DomainIdError};
pub use opaque::{
    AllocationMode, ComputeDomainChannelConfig, ComputeDomainDaemonConfig, ConfigError, ConfigKind,
    OpaqueConfig, StoredConfig,
};
pub use settings::{
    ForcedGate, ImexOptions, Isolation, Mode, Settings, SettingsError, SettingsWarning,
};
