//! The opaque configs of claims: `spec.devices.config[].opaque.parameters` of a `ResourceClaim`. They contain the UID
//! of the ComputeDomain and the allocation mode.

mod error;

use std::fmt;

use dra_claim::{Parameters, ParametersError};
use serde_json::{Value, json};

pub use error::ConfigError;

use crate::domain_uid::DomainUid;
use crate::names::API_VERSION;

/// The opaque config of a claim. Every field is checked, except that an unknown allocation mode is kept for Prepare
/// to reject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpaqueConfig {
    /// For a workload's claim.
    Channel(ComputeDomainChannelConfig),
    /// For the claim of an IMEX daemon's pod. Only the Go driver's driver-managed mode creates such claims.
    Daemon(ComputeDomainDaemonConfig),
}

/// The ComputeDomain of a workload, and the number of channels requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeDomainChannelConfig {
    /// UID of the ComputeDomain.
    pub domain_uid: DomainUid,
    /// One channel or all.
    pub allocation_mode: AllocationMode,
}

/// The ComputeDomain that an IMEX daemon pod serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeDomainDaemonConfig {
    /// UID of the ComputeDomain.
    pub domain_uid: DomainUid,
}

/// Number of channels that a workload requests. Any text can be decoded, as in the Go driver; Prepare rejects
/// unsupported modes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllocationMode {
    /// Absent, null or empty. Treated as `Single`, as in the Go driver.
    #[default]
    Unset,
    /// One channel.
    Single,
    /// Every channel of the node.
    All,
    /// Any other value.
    Unknown(String),
}

/// The `kind` of an [`OpaqueConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigKind {
    Channel,
    Daemon,
}

/// Other kinds of the same API version. They are known, but do not configure a claim of this driver. They get a
/// separate error, as in the Go driver.
const OTHER_KINDS: [&str; 5] = [
    "GpuConfig",
    "MigDeviceConfig",
    "VfioDeviceConfig",
    "ComputeDomain",
    "ComputeDomainClique",
];

// === impl OpaqueConfig ===

impl OpaqueConfig {
    /// Decodes the config of a claim for Prepare. Unknown and duplicate fields are errors, so that a typo is found
    /// before a device is prepared. Field names are case-sensitive, and null means absent. Unprepare does not need
    /// the config.
    ///
    /// # Errors
    /// All errors are permanent, because the config of a claim is immutable.
    pub fn decode_strict(json: &str) -> Result<Self, ConfigError> {
        let parameters = Parameters::parse(json)?;
        let kind = kind_of(&parameters)?;
        parameters.deny_unknown(kind.fields())?;
        Self::from_parameters(kind, &parameters)
    }

    /// Decodes a config of another writer, perhaps of a newer version, for a comparison. Unknown fields are ignored,
    /// the last of several fields with the same name is used, and null and empty mean absent. So equivalent configs
    /// compare equal regardless of their text.
    ///
    /// ```
    /// use compute_domain_api::{AllocationMode, OpaqueConfig};
    ///
    /// let newer = r#"{
    ///     "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
    ///     "domainID": "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1", "allocationMode": null, "priority": 1
    /// }"#;
    /// assert!(OpaqueConfig::decode_strict(newer).is_err());
    /// let OpaqueConfig::Channel(config) = OpaqueConfig::decode_lenient(newer)? else {
    ///     panic!("not a channel's config");
    /// };
    /// assert_eq!(config.allocation_mode, AllocationMode::Unset);
    /// # Ok::<_, compute_domain_api::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`OpaqueConfig::decode_strict`], but never [`ParametersError::Strict`].
    pub fn decode_lenient(json: &str) -> Result<Self, ConfigError> {
        let parameters = Parameters::parse(json)?;
        Self::from_parameters(kind_of(&parameters)?, &parameters)
    }

    fn from_parameters(kind: ConfigKind, parameters: &Parameters<'_>) -> Result<Self, ConfigError> {
        let text = |name| Ok::<_, ConfigError>(parameters.string(name)?.unwrap_or_default());
        Ok(match kind {
            ConfigKind::Channel => Self::Channel(ComputeDomainChannelConfig {
                allocation_mode: text("allocationMode")?.into(),
                domain_uid: DomainUid::parse(&text("domainID")?)?,
            }),
            ConfigKind::Daemon => Self::Daemon(ComputeDomainDaemonConfig {
                domain_uid: DomainUid::parse(&text("domainID")?)?,
            }),
        })
    }
}

fn kind_of(parameters: &Parameters<'_>) -> Result<ConfigKind, ConfigError> {
    let kind = parameters.kind_of(API_VERSION)?;
    match kind.as_str() {
        ComputeDomainChannelConfig::KIND => Ok(ConfigKind::Channel),
        ComputeDomainDaemonConfig::KIND => Ok(ConfigKind::Daemon),
        known if OTHER_KINDS.contains(&known) => Err(ConfigError::OtherKind { kind }),
        _ => Err(ParametersError::UnknownKind {
            kind,
            api_version: API_VERSION.to_owned(),
        }
        .into()),
    }
}

// === impl ConfigKind ===

impl ConfigKind {
    /// Every field of a config of this kind.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Channel => &["apiVersion", "kind", "domainID", "allocationMode"],
            Self::Daemon => &["apiVersion", "kind", "domainID"],
        }
    }
}

// === impl ComputeDomainChannelConfig, ComputeDomainDaemonConfig ===

impl ComputeDomainChannelConfig {
    /// Its `kind` in JSON.
    pub const KIND: &str = "ComputeDomainChannelConfig";

    /// The config as JSON, for `opaque.parameters`. An unset mode is left out.
    pub fn to_parameters(&self) -> Value {
        let mut parameters = json!({
            "apiVersion": API_VERSION,
            "kind": Self::KIND,
            "domainID": self.domain_uid,
        });
        if self.allocation_mode != AllocationMode::Unset
            && let Some(fields) = parameters.as_object_mut()
        {
            fields.insert(
                "allocationMode".to_owned(),
                self.allocation_mode.as_str().into(),
            );
        }
        parameters
    }
}

impl ComputeDomainDaemonConfig {
    /// Its `kind` in JSON.
    pub const KIND: &str = "ComputeDomainDaemonConfig";
}

// === impl AllocationMode ===

impl AllocationMode {
    /// The value in JSON; empty if unset.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unset => "",
            Self::Single => "Single",
            Self::All => "All",
            Self::Unknown(mode) => mode,
        }
    }
}

impl From<String> for AllocationMode {
    fn from(mode: String) -> Self {
        match mode.as_str() {
            "" => Self::Unset,
            "Single" => Self::Single,
            "All" => Self::All,
            _ => Self::Unknown(mode),
        }
    }
}

impl fmt::Display for AllocationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
