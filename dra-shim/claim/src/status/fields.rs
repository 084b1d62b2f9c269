//! The fields of `ResourceClaimStatus`, in the order in which Go writes them. Do not
//! reorder. A field with `skip_serializing_if` has `omitempty` in Go.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::field::{List, NullableList, Object, Optional, OrZero, is_zero};
use super::quantity::Quantity;
use super::raw::Raw;
use super::time::{MetaTime, optional_time};

type Text = OrZero<String>;
type Texts = OrZero<Vec<String>>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) allocation: Optional<Allocation>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) reserved_for: List<Consumer>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) devices: List<DeviceStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Allocation {
    pub(crate) devices: OrZero<Object<Devices>>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) node_selector: Optional<NodeSelector>,
    #[serde(
        rename = "allocationTimestamp",
        deserialize_with = "optional_time",
        skip_serializing_if = "is_zero"
    )]
    timestamp: Option<MetaTime>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Devices {
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) results: List<DeviceResult>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) config: List<DeviceConfig>,
}

/// One allocated device (`DeviceRequestAllocationResult`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceResult {
    request: Text,
    driver: Text,
    pool: Text,
    device: Text,
    #[serde(skip_serializing_if = "is_zero")]
    admin_access: Option<bool>,
    #[serde(skip_serializing_if = "is_zero")]
    tolerations: List<Toleration>,
    #[serde(skip_serializing_if = "is_zero")]
    binding_conditions: Texts,
    #[serde(skip_serializing_if = "is_zero")]
    binding_failure_conditions: Texts,
    #[serde(rename = "shareID", skip_serializing_if = "is_zero")]
    share_id: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    consumed_capacity: OrZero<BTreeMap<String, Quantity>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Toleration {
    #[serde(skip_serializing_if = "is_zero")]
    key: Text,
    #[serde(skip_serializing_if = "is_zero")]
    operator: Text,
    #[serde(skip_serializing_if = "is_zero")]
    value: Text,
    #[serde(skip_serializing_if = "is_zero")]
    effect: Text,
    #[serde(rename = "tolerationSeconds", skip_serializing_if = "is_zero")]
    seconds: Option<i64>,
}

/// One configuration of an allocation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceConfig {
    source: Text,
    #[serde(skip_serializing_if = "is_zero")]
    requests: Texts,
    #[serde(skip_serializing_if = "is_zero")]
    opaque: Optional<OpaqueConfig>,
}

/// The source of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// The administrator, in the `DeviceClass`.
    Class,
    /// The user, in the claim.
    Claim,
}

/// A configuration that only the driver understands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct OpaqueConfig {
    driver: Text,
    // Written as null when absent.
    parameters: Option<Raw>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeSelector {
    node_selector_terms: NullableList<NodeSelectorTerm>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelectorTerm {
    #[serde(skip_serializing_if = "is_zero")]
    match_expressions: List<NodeRequirement>,
    #[serde(skip_serializing_if = "is_zero")]
    match_fields: List<NodeRequirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct NodeRequirement {
    key: Text,
    operator: Text,
    #[serde(skip_serializing_if = "is_zero")]
    values: Texts,
}

/// A consumer that a claim is reserved for, such as a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Consumer {
    #[serde(skip_serializing_if = "is_zero")]
    api_group: Text,
    resource: Text,
    name: Text,
    uid: Text,
}

/// A driver's report about one allocated device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceStatus {
    driver: Text,
    pool: Text,
    device: Text,
    #[serde(rename = "shareID", skip_serializing_if = "is_zero")]
    share_id: Option<String>,
    conditions: NullableList<Condition>,
    #[serde(skip_serializing_if = "is_zero")]
    data: Option<Raw>,
    #[serde(skip_serializing_if = "is_zero")]
    network_data: Optional<NetworkData>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NetworkData {
    #[serde(skip_serializing_if = "is_zero")]
    interface_name: Text,
    #[serde(skip_serializing_if = "is_zero")]
    ips: Texts,
    #[serde(skip_serializing_if = "is_zero")]
    hardware_address: Text,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: Text,
    status: Text,
    #[serde(skip_serializing_if = "is_zero")]
    observed_generation: OrZero<i64>,
    // Written as null when absent.
    #[serde(deserialize_with = "optional_time")]
    last_transition_time: Option<MetaTime>,
    reason: Text,
    message: Text,
}

// === impl DeviceResult ===

impl DeviceResult {
    /// The request that the device satisfies; `request/subrequest` for a prioritized
    /// list.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// The request without the subrequest: the name that containers refer to.
    pub fn base_request(&self) -> &str {
        base_request(&self.request)
    }

    /// The driver of the device.
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

    /// Whether the device was allocated with adminAccess, which does not reserve it.
    pub fn admin_access(&self) -> bool {
        self.admin_access.unwrap_or(false)
    }

    /// The share's ID, if several claims may have the device at once.
    pub fn share_id(&self) -> Option<&str> {
        self.share_id.as_deref()
    }

    /// The amount of each capacity that the scheduler has reserved for this result: the
    /// capacity's name and a quantity (`1`, `500m`, `10Gi`). It is at least the requested
    /// amount, since the device's request policy may round it up. Without a request and a
    /// default it is the whole capacity. Empty unless the device allows multiple allocations.
    pub fn consumed_capacity(&self) -> impl Iterator<Item = (&str, &str)> {
        let amounts = self.consumed_capacity.iter();
        amounts.map(|(name, amount)| (name.as_str(), amount.as_str()))
    }
}

/// Returns `request` for both `request` and `request/subrequest`.
pub fn base_request(request: &str) -> &str {
    request.split_once('/').map_or(request, |(base, _)| base)
}

// === impl DeviceStatus ===

impl DeviceStatus {
    /// Whether this is the report about the device of `result`.
    pub fn is_of(&self, result: &DeviceResult) -> bool {
        let ours = (&self.driver, &self.pool, &self.device, &self.share_id);
        ours == (
            &result.driver,
            &result.pool,
            &result.device,
            &result.share_id,
        )
    }
}

// === impl Consumer ===

impl Consumer {
    /// The UID of the pod; `None` for a group of pods or another kind of a newer API.
    pub fn pod_uid(&self) -> Option<&str> {
        let is_pod = self.api_group.is_empty() && *self.resource == "pods";
        is_pod.then_some(&self.uid)
    }

    /// The consumer's name, in the claim's namespace.
    pub fn name(&self) -> &str {
        &self.name
    }
}

// === impl DeviceConfig ===

impl DeviceConfig {
    /// The source; an unknown one of a newer API as text.
    pub fn source(&self) -> Result<ConfigSource, &str> {
        match self.source.as_str() {
            "FromClass" => Ok(ConfigSource::Class),
            "FromClaim" => Ok(ConfigSource::Claim),
            other => Err(other),
        }
    }

    /// The requests that the configuration applies to; empty means all.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// Whether the configuration applies to an allocation result: it names no request,
    /// the result's request, or its base request.
    // req: KUBELET-20
    pub fn applies_to(&self, result: &DeviceResult) -> bool {
        let mut requests = self.requests.iter();
        self.requests.is_empty()
            || requests.any(|name| name == result.request() || name == result.base_request())
    }

    /// The driver that the configuration is for; `None` for an unknown kind of a newer API.
    pub fn driver(&self) -> Option<&str> {
        self.opaque.as_ref().map(|opaque| opaque.driver.as_str())
    }

    /// The driver's parameters as untrusted JSON; `null` if absent. It is the user's text
    /// without insignificant whitespace and with Go's escapes.
    pub fn parameters(&self) -> &str {
        let parameters = self.opaque.as_ref().and_then(|it| it.parameters.as_ref());
        parameters.map_or("null", Raw::get)
    }
}

// === impl NodeSelector ===

impl NodeSelector {
    pub(super) fn may_match(&self, node: &str) -> bool {
        let terms = self.node_selector_terms.items();
        terms.is_empty() || terms.iter().any(|term| !term.excludes(node))
    }
}

impl NodeSelectorTerm {
    fn excludes(&self, node: &str) -> bool {
        self.match_fields.iter().any(|field| field.excludes(node))
    }
}

impl NodeRequirement {
    fn excludes(&self, node: &str) -> bool {
        let names_it = self.values.iter().any(|value| value == node);
        *self.key == "metadata.name"
            && match self.operator.as_str() {
                "In" => !names_it,
                "NotIn" => names_it,
                _ => false,
            }
    }
}
