//! Shared contract of the controller and the kubelet plugin: the `ComputeDomain` custom resource, the opaque configs
//! of claims, names of labels and devices, feature gates, and the IMEX settings.
//!
//! Used by the controller and `compute-domain-core`, the plugin and `compute-domain-node`, `daemon-runtime` (options
//! of both programs) and `host-doctor` (names).
//!
//! | item | what it is | used |
//! |---|---|---|
//! | [`ImexOptions::resolve`] | turns flags, environment or chart values into [`Settings`] | by both programs, at start |
//! | [`ComputeDomainChannelConfig::to_parameters`] | the opaque config in a claim template | by the controller, when it creates the template |
//! | [`OpaqueConfig::decode_strict`] | the opaque config of a claim, fully checked | by the plugin in Prepare, and by the controller to compare a template with the desired one |
//! | [`OpaqueConfig::decode_lenient`] | the same for a config of a newer version or another writer | not yet by our programs; the Go driver reads the configs in its checkpoints this way |
//! | `crd::ComputeDomain` (feature `crd`) | the custom resource | by the controller, and by the plugin to check whether a ComputeDomain exists |
//! | `clique::ComputeDomainClique` (feature `crd`), [`driver_managed`] | the members of a clique, and the state that their IMEX daemons report | in driver-managed mode |
//! | [`names`], [`gates`], [`DomainUid`] | labels and device names; feature gates; the UID of a ComputeDomain | everywhere |
//!
//! The crate does no I/O: it contains data types and pure functions on text. Names and JSON are those of the Go
//! driver, so users' manifests work with both drivers, and either can replace the other.
//!
//! There are two modes. In *host-managed* mode, the administrator runs `nvidia-imex` on the hosts. In
//! *driver-managed* mode, the driver runs it in pods.

mod domain_uid;
pub mod driver_managed;
pub mod gates;
pub mod names;
mod opaque;
mod settings;

#[cfg(feature = "crd")]
pub mod clique;
#[cfg(feature = "crd")]
pub mod crd;

pub use domain_uid::{DomainUid, DomainUidError};
pub use opaque::{
    AllocationMode, ComputeDomainChannelConfig, ComputeDomainDaemonConfig, ConfigError,
    OpaqueConfig,
};
pub use settings::{
    ForcedGate, GROUP_CHANNELS, ImexOptions, Isolation, Mode, Placement, Settings, SettingsError,
    SettingsWarning, Sharing,
};
