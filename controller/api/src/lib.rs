//! What controller and kubelet plugin must agree on: the `ComputeDomain` custom resource, the opaque
//! configs that claims carry, names of labels and devices, feature gates, and the IMEX settings.
//! It is used by the controller and `compute-domain-core`, by the plugin and `compute-domain-node`, by
//! `daemon-runtime` for the options of both programs, and by `host-doctor` for the names.
//!
//! | item | what it is | used |
//! |---|---|---|
//! | [`ImexOptions::resolve`] | flags, environment or chart values to [`Settings`] | at start, by both programs |
//! | [`ComputeDomainChannelConfig::to_parameters`] | the opaque config in a claim template | by the controller, when it creates the template |
//! | [`OpaqueConfig::decode_strict`] | the opaque config of a claim, fully checked | by the plugin, in Prepare, and by the controller, to compare a template with what it should be |
//! | [`OpaqueConfig::decode_lenient`] | the same, of a newer version or of another writer | by none of our programs yet; so the Go driver reads the configs in its checkpoints |
//! | `crd::ComputeDomain` (feature `crd`) | the custom resource | by the controller and by the plugin, to look up whether a ComputeDomain exists |
//! | `clique::ComputeDomainClique` (feature `crd`), [`driver_managed`] | the members of a clique, and what their IMEX daemons tell | in the driver-managed mode |
//! | [`names`], [`gates`], [`DomainUid`] | labels, device names; feature gates; the UID of a ComputeDomain | everywhere |
//!
//! There is no I/O: everything here is data, and pure functions on text. Names and JSON are those of
//! the Go driver, so that users' manifests work with both, and either can take over from the other.
//!
//! Two modes occur everywhere. In the *host-managed* mode the operator runs `nvidia-imex` on the
//! hosts. In the *driver-managed* mode the driver runs it in pods; only the Go driver implements it.

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
