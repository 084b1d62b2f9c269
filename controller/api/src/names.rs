//! Strings shared with the Go driver and with users' manifests. All are wire format.

/// Name of the DRA driver: opaque configs, `ResourceSlice`s and allocation results carry it.
pub const DRIVER_NAME: &str = "compute-domain.nvidia.com";

/// API group of `ComputeDomain` and of the opaque configs.
pub const API_GROUP: &str = "resource.nvidia.com";

/// The one API version of [`API_GROUP`].
pub const API_GROUP_VERSION: &str = "v1beta1";

/// `apiVersion` of `ComputeDomain` and of the opaque configs.
pub const API_VERSION: &str = "resource.nvidia.com/v1beta1";

/// Label whose value is the UID of the ComputeDomain that an object belongs to.
pub const DOMAIN_LABEL: &str = "resource.nvidia.com/computeDomain";

/// Finalizer of `ComputeDomains` and of their claim templates: the label's string, as in Go.
pub const FINALIZER: &str = DOMAIN_LABEL;

/// Label that says what a claim template is for: [`TARGET_WORKLOAD`] or [`TARGET_DAEMON`].
pub const TARGET_LABEL: &str = "resource.nvidia.com/computeDomainTarget";

/// [`TARGET_LABEL`] of the template that users' pods name.
pub const TARGET_WORKLOAD: &str = "Workload";

/// [`TARGET_LABEL`] of the template of an IMEX daemon pod. Only the driver-managed mode makes
/// those; here they are recognised as its leftovers.
pub const TARGET_DAEMON: &str = "Daemon";

/// `DeviceClass` that selects channel 0 of a node.
pub const CHANNEL_DEVICE_CLASS: &str = "compute-domain-default-channel.nvidia.com";

/// Name of the only request in the workload claim template.
pub const CHANNEL_REQUEST: &str = "channel";

/// Attribute of a published device: [`DEVICE_TYPE_CHANNEL`]. Bare key, as in Go's slices.
pub const DEVICE_TYPE_ATTRIBUTE: &str = "type";

/// Value of [`DEVICE_TYPE_ATTRIBUTE`] for an IMEX channel.
pub const DEVICE_TYPE_CHANNEL: &str = "channel";

/// Attribute of a published device: the channel's number, an integer.
pub const DEVICE_ID_ATTRIBUTE: &str = "id";

/// Name under which the channel with this id is published.
pub fn channel_device_name(id: u32) -> String {
    format!("channel-{id}")
}
