//! `ResourceClaimStatus` of `resource.k8s.io/v1`, with the bytes of Go.

mod field;
mod fields;
mod quantity;
mod raw;
mod time;

use dra_common::Advice;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::field::{Object, OrZero};
pub use self::fields::{
    ConfigSource, Consumer, DeviceConfig, DeviceResult, DeviceStatus, base_request,
};
pub use self::quantity::quantity_value;
pub use self::time::{MetaTime, optional_time};

/// The status of a `ResourceClaim`: its allocated devices, their configuration, and
/// the pods that they are reserved for.
///
/// Equality is Go's semantic comparison: null equals empty; quantities are compared
/// by value, times by whole seconds, raw JSON without insignificant whitespace. A
/// checkpoint record and a claim with equal statuses have the same allocation. Any
/// other difference, such as in `reservedFor`, makes them unequal.
///
/// Fields that `resource.k8s.io/v1` of Kubernetes 1.36 does not have are dropped,
/// because Go would refuse a checkpoint with them. In a checkpoint of a newer writer
/// they stay until the claim's record changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimStatus(OrZero<Object<fields::Status>>);

/// The error for a text that is not a claim status.
#[derive(Debug, thiserror::Error, Advice)]
#[error("invalid status of a resource.k8s.io/v1 ResourceClaim")]
#[advice(
    code = "invalid-claim-status",
    hint = "read the claim in version resource.k8s.io/v1"
)]
pub struct StatusError(#[source] serde_json::Error);

// === impl ClaimStatus ===

impl ClaimStatus {
    /// Reads a claim's `.status` from the API server's JSON. `null` gives an empty
    /// status.
    ///
    /// So does the JSON of a whole claim, since unknown fields are dropped. A Prepare
    /// therefore checks [`is_allocated`](Self::is_allocated) first.
    pub fn from_json(text: &str) -> Result<Self, StatusError> {
        let status: Option<Self> = serde_json::from_str(text).map_err(StatusError)?;
        Ok(status.unwrap_or_default())
    }

    /// Like [`from_json`](Self::from_json), from a part of a larger document.
    pub fn from_raw(raw: &RawValue) -> Result<Self, StatusError> {
        Self::from_json(raw.get())
    }

    /// Returns the JSON for a checkpoint, with Go's field order and escapes.
    pub fn to_json(&self) -> String {
        // Strings, integers and checked raw JSON always encode.
        crate::gojson::to_string(self).unwrap_or_default()
    }

    /// Returns whether there is an allocation. Claims upgraded from 25.3.0-rc.2
    /// have none.
    pub fn is_allocated(&self) -> bool {
        self.0.allocation.is_some()
    }

    /// Returns the allocated devices of all drivers, in the allocator's order. Empty
    /// without an allocation.
    pub fn results(&self) -> &[DeviceResult] {
        self.0
            .allocation
            .as_ref()
            .map_or(&[], |allocation| &allocation.devices.results)
    }

    /// Returns the configurations of all drivers, in API order. Empty without an
    /// allocation.
    pub fn configs(&self) -> &[DeviceConfig] {
        self.0
            .allocation
            .as_ref()
            .map_or(&[], |allocation| &allocation.devices.config)
    }

    /// Returns the allocated devices of `driver`, in the allocator's order.
    pub fn results_of(&self, driver: &str) -> impl Iterator<Item = &DeviceResult> {
        let results = self.results().iter();
        results.filter(move |result| result.driver() == driver)
    }

    /// Returns the configurations of `driver` in rising precedence: those of the class, then
    /// those of the claim. Configurations from unknown sources are left out.
    pub fn configs_of(&self, driver: &str) -> impl Iterator<Item = &DeviceConfig> {
        let from = move |source| {
            let configs = self.configs().iter();
            configs.filter(move |it| it.source() == Ok(source) && it.driver() == Some(driver))
        };
        from(ConfigSource::Class).chain(from(ConfigSource::Claim))
    }

    /// Whether the allocation's node selector may match `node`. Only a requirement on the
    /// node's name can exclude it, because labels are not known here. `true` without a selector.
    pub fn may_be_for_node(&self, node: &str) -> bool {
        let allocation = self.0.allocation.as_ref();
        let selector = allocation.and_then(|allocation| allocation.node_selector.as_ref());
        selector.is_none_or(|selector| selector.may_match(node))
    }

    /// Returns the drivers' reports about the allocated devices.
    pub fn devices(&self) -> &[DeviceStatus] {
        &self.0.devices
    }

    /// Returns the consumers that the claim is reserved for, in API order.
    pub fn reserved_for(&self) -> &[Consumer] {
        &self.0.reserved_for
    }
}
