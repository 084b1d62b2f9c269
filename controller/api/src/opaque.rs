//! The opaque configs of compute domain claims, as `opaque.parameters` carries them.
//!
//! Two decoders, because they serve opposite needs: a user's typo has to be found before a device
//! is handed out ([`OpaqueConfig::decode_strict`]), and what was prepared once has to be undone
//! whichever release wrote it ([`StoredConfig::decode`]).

mod error;
mod fields;

use std::fmt;

use serde_json::{Value, json};

pub use error::ConfigError;
use fields::Fields;

use crate::domain_id::DomainId;
use crate::names::API_VERSION;

/// A config of one of our two kinds, every field checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpaqueConfig {
    /// For a workload's channel.
    Channel(ComputeDomainChannelConfig),
    /// For a pod of the driver-managed mode's daemons.
    Daemon(ComputeDomainDaemonConfig),
}

/// Which ComputeDomain a channel is for, and how many channels are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeDomainChannelConfig {
    /// UID of the ComputeDomain.
    pub domain_id: DomainId,
    /// One channel or all.
    pub allocation_mode: AllocationMode,
}

/// Which ComputeDomain an IMEX daemon pod serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeDomainDaemonConfig {
    /// UID of the ComputeDomain.
    pub domain_id: DomainId,
}

/// How many channels a workload wants. Decoding checks nothing here, as in Go: who prepares the
/// claim decides what it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllocationMode {
    /// Absent, null or empty: Go means `Single`.
    #[default]
    Unset,
    /// One channel.
    Single,
    /// Every channel of the node.
    All,
    /// A word that this release does not know.
    Unknown(String),
}

/// What undoing a claim needs from its config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConfig {
    /// Which kind of claim it was.
    pub kind: ConfigKind,
    /// UID of the ComputeDomain, if there is a usable one.
    pub domain_id: Option<DomainId>,
}

/// The kinds of configs that a compute domain claim may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKind {
    /// `ComputeDomainChannelConfig`.
    Channel,
    /// `ComputeDomainDaemonConfig`.
    Daemon,
}

/// Kinds of the same API version that are no config of ours: Go decodes and then refuses them.
const FOREIGN_KINDS: [&str; 5] = [
    "GpuConfig",
    "MigDeviceConfig",
    "VfioDeviceConfig",
    "ComputeDomain",
    "ComputeDomainClique",
];

// === impl OpaqueConfig ===

impl OpaqueConfig {
    /// Decodes what a user wrote. Unknown and duplicate fields are errors; field names are
    /// case-sensitive; null means absent.
    pub fn decode_strict(json: &str) -> Result<Self, ConfigError> {
        let fields = Fields::parse(json)?;
        let kind = kind_of(&fields)?;
        let domain_id = fields.string("domainID")?.unwrap_or_default();
        match kind {
            ConfigKind::Channel => {
                let mode = fields.string("allocationMode")?.unwrap_or_default();
                fields.only(&["apiVersion", "kind", "domainID", "allocationMode"])?;
                Ok(Self::Channel(ComputeDomainChannelConfig {
                    domain_id: DomainId::parse(&domain_id)?,
                    allocation_mode: mode.into(),
                }))
            }
            ConfigKind::Daemon => {
                fields.only(&["apiVersion", "kind", "domainID"])?;
                let domain_id = DomainId::parse(&domain_id)?;
                Ok(Self::Daemon(ComputeDomainDaemonConfig { domain_id }))
            }
        }
    }
}

// === impl StoredConfig ===

impl StoredConfig {
    /// Decodes what some release once accepted. Unknown fields are ignored, the last of a
    /// duplicate wins, and a domain ID that cannot be used is none; a wrong kind or a field of the
    /// wrong type is still an error, as in Go.
    pub fn decode(json: &str) -> Result<Self, ConfigError> {
        let fields = Fields::parse(json)?;
        let kind = kind_of(&fields)?;
        let domain_id = fields
            .string("domainID")?
            .and_then(|id| DomainId::parse(&id).ok());
        if kind == ConfigKind::Channel {
            fields.string("allocationMode")?;
        }
        Ok(Self { kind, domain_id })
    }
}

fn kind_of(fields: &Fields<'_>) -> Result<ConfigKind, ConfigError> {
    let kind = fields.word("kind")?.ok_or(ConfigError::MissingKind)?;
    let api_version = fields
        .word("apiVersion")?
        .ok_or(ConfigError::MissingApiVersion)?;
    if api_version != API_VERSION {
        return Err(ConfigError::UnknownKind { kind, api_version });
    }
    match kind.as_str() {
        ComputeDomainChannelConfig::KIND => Ok(ConfigKind::Channel),
        ComputeDomainDaemonConfig::KIND => Ok(ConfigKind::Daemon),
        known if FOREIGN_KINDS.contains(&known) => Err(ConfigError::ForeignKind { kind }),
        _ => Err(ConfigError::UnknownKind { kind, api_version }),
    }
}

// === impl ComputeDomainChannelConfig, ComputeDomainDaemonConfig ===

impl ComputeDomainChannelConfig {
    /// The `kind` on the wire.
    pub const KIND: &str = "ComputeDomainChannelConfig";

    /// The config as `opaque.parameters` holds it. An unset mode is left out.
    pub fn to_parameters(&self) -> Value {
        let mut parameters = json!({
            "apiVersion": API_VERSION,
            "kind": Self::KIND,
            "domainID": self.domain_id,
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
    /// The `kind` on the wire.
    pub const KIND: &str = "ComputeDomainDaemonConfig";
}

// === impl AllocationMode ===

impl AllocationMode {
    /// The word on the wire; empty when unset.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unset => "",
            Self::Single => "Single",
            Self::All => "All",
            Self::Unknown(word) => word,
        }
    }
}

impl From<String> for AllocationMode {
    fn from(word: String) -> Self {
        match word.as_str() {
            "" => Self::Unset,
            "Single" => Self::Single,
            "All" => Self::All,
            _ => Self::Unknown(word),
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
