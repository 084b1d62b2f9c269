//! The data of a spec. Keys are as in [`ContainerEdits`].

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::go_serde::{MappingOnly, exact, is_default, mapping_only, unique_keys};
use crate::{ContainerEdits, DeviceName, Kind, SpecVersion};

/// A CDI spec that runtimes accept: at least one device, unique device names, no
/// device without edits, only edits that Go's CDI library accepts, and a version
/// that supports all fields in use.
///
/// That does not mean that a container starts: paths may be relative or missing,
/// and device numbers may be wrong. [`warnings`](Self::warnings) finds probable
/// mistakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub(super) cdi_version: SpecVersion,
    pub(super) kind: Kind,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) devices: Vec<Device>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) container_edits: ContainerEdits,
}

/// One device that a container can request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// Unique within the kind, on the whole host.
    pub name: DeviceName,
    /// Annotations, for the vendor's use. Needs CDI 0.6.0.
    #[serde(default, deserialize_with = "unique_keys")]
    #[serde(skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
    /// What the container gets. Not empty in a [`Spec`].
    pub container_edits: ContainerEdits,
}

/// A spec as read from a file, not yet checked.
#[derive(Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawSpec {
    cdi_version: SpecVersion,
    kind: Kind,
    #[serde(default, deserialize_with = "unique_keys")]
    annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "exact")]
    devices: Vec<Device>,
    #[serde(default)]
    container_edits: ContainerEdits,
}

mapping_only!(Device);

impl<'de> Deserialize<'de> for RawSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(MappingOnly(deserializer))
    }
}

// === impl Spec ===

impl Spec {
    /// The version that the spec declares.
    pub fn version(&self) -> SpecVersion {
        self.cdi_version
    }

    /// The kind of all its devices.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Annotations of the spec as a whole.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    /// Its devices, in file order.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What every container that requests any of the devices gets.
    pub fn container_edits(&self) -> &ContainerEdits {
        &self.container_edits
    }
}

impl From<RawSpec> for Spec {
    /// The result is not checked yet, which the caller has to do with
    /// [`Spec::checked`] or [`Spec::faults`].
    fn from(raw: RawSpec) -> Self {
        let RawSpec {
            cdi_version,
            kind,
            annotations,
            devices,
            container_edits,
        } = raw;
        Self {
            cdi_version,
            kind,
            annotations,
            devices,
            container_edits,
        }
    }
}
