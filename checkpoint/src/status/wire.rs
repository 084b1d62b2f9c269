//! The fields of `ResourceClaimStatus` in the order in which Go writes them,
//! each with Go's rule for leaving it out. Do not reorder.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::object;
use super::quantity::Quantity;
use super::raw::Raw;
use super::time::{Seconds, optional_seconds};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(
        deserialize_with = "object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) allocation: Option<Allocation>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    reserved_for: Vec<Consumer>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    devices: Vec<DeviceStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Allocation {
    #[serde(deserialize_with = "object::object")]
    pub(crate) devices: Devices,
    #[serde(
        deserialize_with = "object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    node_selector: Option<NodeSelector>,
    #[serde(
        rename = "allocationTimestamp",
        deserialize_with = "optional_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    timestamp: Option<Seconds>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Devices {
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(crate) results: Vec<DeviceResult>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(crate) config: Vec<DeviceConfig>,
}

/// One allocated device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceResult {
    #[serde(deserialize_with = "or_default")]
    request: String,
    #[serde(deserialize_with = "or_default")]
    driver: String,
    #[serde(deserialize_with = "or_default")]
    pool: String,
    #[serde(deserialize_with = "or_default")]
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin_access: Option<bool>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    binding_conditions: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    binding_failure_conditions: Vec<String>,
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    share_id: Option<String>,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    consumed_capacity: BTreeMap<String, Quantity>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Toleration {
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    key: String,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    operator: String,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    value: String,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    effect: String,
    #[serde(rename = "tolerationSeconds", skip_serializing_if = "Option::is_none")]
    seconds: Option<i64>,
}

/// One configuration of an allocation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceConfig {
    #[serde(deserialize_with = "or_default")]
    source: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    requests: Vec<String>,
    #[serde(
        deserialize_with = "object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    opaque: Option<OpaqueConfig>,
}

/// A configuration that only its driver understands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpaqueConfig {
    #[serde(deserialize_with = "or_default")]
    driver: String,
    // Written as null when absent.
    parameters: Option<Raw>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector {
    node_selector_terms: NullableVec<NodeSelectorTerm>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelectorTerm {
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    match_expressions: Vec<NodeRequirement>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    match_fields: Vec<NodeRequirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct NodeRequirement {
    #[serde(deserialize_with = "or_default")]
    key: String,
    #[serde(deserialize_with = "or_default")]
    operator: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Consumer {
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    api_group: String,
    #[serde(deserialize_with = "or_default")]
    resource: String,
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    uid: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceStatus {
    #[serde(deserialize_with = "or_default")]
    driver: String,
    #[serde(deserialize_with = "or_default")]
    pool: String,
    #[serde(deserialize_with = "or_default")]
    device: String,
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    share_id: Option<String>,
    conditions: NullableVec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Raw>,
    #[serde(
        deserialize_with = "object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    network_data: Option<NetworkData>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NetworkData {
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    interface_name: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    ips: Vec<String>,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    hardware_address: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    observed_generation: i64,
    // Written as null when absent.
    #[serde(deserialize_with = "optional_seconds")]
    last_transition_time: Option<Seconds>,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    message: String,
}

/// A list that Go never leaves out: null and empty are written apart, and
/// compared as one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent, bound(deserialize = "T: Deserialize<'de>"))]
struct NullableVec<T>(#[serde(deserialize_with = "object::optional_list")] Option<Vec<T>>);

// === impl DeviceResult ===

impl DeviceResult {
    /// The request that it satisfies; `request/subrequest` for a prioritized
    /// list.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// The driver whose device it is.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The pool of the device; unique together with driver and device.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The device's name in its pool.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Whether it was allocated for administrative access, which holds nothing.
    pub fn admin_access(&self) -> bool {
        self.admin_access.unwrap_or(false)
    }

    /// The share of a device that several claims may hold at once.
    pub fn share_id(&self) -> Option<&str> {
        self.share_id.as_deref()
    }
}

// === impl DeviceConfig ===

impl DeviceConfig {
    /// `FromClass` or `FromClaim`, or what a newer API sends.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The requests that it applies to; empty means all.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// The driver's part; `None` for a kind of configuration of a newer API.
    pub fn opaque(&self) -> Option<&OpaqueConfig> {
        self.opaque.as_ref()
    }
}

// === impl OpaqueConfig ===

impl OpaqueConfig {
    /// The driver that it is for.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The parameters' JSON text, `null` when absent. Only insignificant white
    /// space and the escapes that Go adds differ from what the user wrote.
    pub fn parameters(&self) -> &str {
        self.parameters.as_ref().map_or("null", Raw::get)
    }
}

// === impl NullableVec ===

impl<T> NullableVec<T> {
    fn items(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> Default for NullableVec<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for NullableVec<T> {
    fn eq(&self, other: &Self) -> bool {
        self.items() == other.items()
    }
}

/// In Go a null leaves the zero value.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
