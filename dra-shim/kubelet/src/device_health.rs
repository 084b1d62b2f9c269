//! The health of devices, which a driver reports.

/// The health of one device. A driver always sends the complete list of its devices. If a
/// device has several entries, kubelet keeps the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHealth {
    /// The pool, as in the `ResourceSlice`.
    pub pool: String,
    /// The device, as in the `ResourceSlice`.
    pub device: String,
    /// The device's state.
    pub health: Health,
    /// The reason, for `pod.status`; may be empty. Truncated to 1024 bytes. If the list
    /// exceeds the 4 MiB that kubelet accepts, the messages of all devices are truncated
    /// further: to about 350 bytes with 10 000 devices. If the names alone exceed 4 MiB,
    /// the end of the list is omitted, and kubelet shows those devices as unknown. The
    /// library logs both cases.
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
