//! Device fields that an older API server drops.

/// Device fields that the API server has dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnsupportedFields {
    /// `taints`: the feature gate `DRADeviceTaints` is off, the default below Kubernetes
    /// 1.36.
    pub taints: bool,
    /// `allowMultipleAllocations`: the feature gate `DRAConsumableCapacity` is off, the
    /// default below Kubernetes 1.36. Then only one claim at a time has the device.
    pub sharing: bool,
}
