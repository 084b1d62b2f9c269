//! The health of devices, as a driver reports it.

/// The health of one device. A driver always sends the list of all its devices; of
/// several entries for one device kubelet keeps the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHealth {
    /// The pool, as in the `ResourceSlice`.
    pub pool: String,
    /// The device, as in the `ResourceSlice`.
    pub device: String,
    /// Its state.
    pub health: Health,
    /// The reason, for `pod.status`; may be empty. Truncated to 1024 bytes, and
    /// further, for all devices alike, if the list would not fit into the 4 MiB that
    /// kubelet accepts: some 350 bytes with 10 000 devices. If the names alone do not
    /// fit, the end of the list is left out, and kubelet shows those devices as
    /// unknown. Either is logged.
    pub message: String,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It works.
    Healthy,
    /// It does not work.
    Unhealthy,
    /// Its state cannot be determined.
    Unknown,
}
