//! What an older API server does not store of a device.

/// What the API server was seen not to store of the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UnsupportedFields {
    /// Its taints: the feature gate `DRADeviceTaints` is off, as by default below
    /// Kubernetes 1.36.
    pub(crate) taints: bool,
    /// That claims may share it: the feature gate `DRAConsumableCapacity` is off, as by
    /// default below Kubernetes 1.36. Then one claim has it at a time.
    pub(crate) sharing: bool,
}
