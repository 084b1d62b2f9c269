//! Names that the Go driver and users' manifests use, too. They must not change.

/// Name of the DRA driver, in opaque configs, `ResourceSlices` and allocation results.
pub const DRIVER_NAME: &str = "compute-domain.nvidia.com";

/// `apiVersion` of `ComputeDomain` and of the opaque configs.
pub const API_VERSION: &str = "resource.nvidia.com/v1beta1";

/// Label whose value is the UID of the ComputeDomain that an object belongs to.
pub const DOMAIN_LABEL: &str = "resource.nvidia.com/computeDomain";

/// Annotation of claims whose value is the name of their ComputeDomain, so that it can be read without
/// a search for its UID. The Go driver does not have it.
pub const DOMAIN_NAME_ANNOTATION: &str = "resource.nvidia.com/computeDomainName";

/// Annotation of a claim template whose value is the namespace of its ComputeDomain. A template in
/// another namespace is a copy. The Go driver does not have it.
pub const DOMAIN_NAMESPACE_ANNOTATION: &str = "resource.nvidia.com/computeDomainNamespace";

/// Finalizer of `ComputeDomains` and of their claim templates. As in the Go driver, it is the same
/// string as the label.
pub const FINALIZER: &str = DOMAIN_LABEL;

/// Label for the purpose of a claim template: [`TARGET_WORKLOAD`] or [`TARGET_DAEMON`].
pub const TARGET_LABEL: &str = "resource.nvidia.com/computeDomainTarget";

/// Value of [`TARGET_LABEL`] of the template that users' pods name.
pub const TARGET_WORKLOAD: &str = "Workload";

/// Value of [`TARGET_LABEL`] of the template of IMEX daemon pods, which only the driver-managed
/// mode of the Go driver creates. Here it serves to recognise that such objects still exist.
pub const TARGET_DAEMON: &str = "Daemon";

/// The `DeviceClass` that selects channel 0 of a node.
pub const CHANNEL_DEVICE_CLASS: &str = "compute-domain-default-channel.nvidia.com";

/// Name of the only request in the workload claim template.
pub const CHANNEL_REQUEST: &str = "channel";

/// Attribute of a published device: its type, [`DEVICE_TYPE_CHANNEL`]. The key has no domain, as in
/// the Go driver's slices.
pub const DEVICE_TYPE_ATTRIBUTE: &str = "type";

/// Value of [`DEVICE_TYPE_ATTRIBUTE`] for an IMEX channel.
pub const DEVICE_TYPE_CHANNEL: &str = "channel";

/// Attribute of a published device: the channel's number, an integer.
pub const DEVICE_ID_ATTRIBUTE: &str = "id";

/// Attribute of a published device while its node has a clique: `CLUSTER-UUID.CLIQUE-ID`. The Go driver
/// does not have it.
pub const CLIQUE_ATTRIBUTE: &str = "clique";

/// Capacity of a published device that many claims share: a claim that asks for one of it shares the
/// device, one that asks for nothing takes all of it. The Go driver does not have it.
pub const SLOTS_CAPACITY: &str = "slots";

/// Name of the alternative of [`CHANNEL_REQUEST`] that shares the device of a node.
pub const SHARE_ALTERNATIVE: &str = "share";

/// Name of the alternative of [`CHANNEL_REQUEST`] that takes the whole device of a node, as it is
/// published where devices are not shared.
pub const WHOLE_ALTERNATIVE: &str = "whole";

/// Label of the `Lease` that makes an IMEX channel the one of a ComputeDomain; its value is the number.
pub const CHANNEL_LABEL: &str = "resource.nvidia.com/imexChannel";

/// Reason of a ComputeDomain's condition `Ready` while its `status.channel` belongs to another one, or to
/// nobody: nodes prepare no claim of it.
pub const CHANNEL_NOT_CONFIRMED_REASON: &str = "ChannelNotConfirmed";

/// Key of the taint on the device of a node that definitely has no clique.
pub const NO_CLIQUE_TAINT: &str = "compute-domain.nvidia.com/no-clique";

/// Key of the taint on a device that was shared and is to be exclusive, until nobody has it.
pub const SHARING_ENDS_TAINT: &str = "compute-domain.nvidia.com/sharing-ends";

/// Key of the taint on the device of a node whose fabric is degraded.
pub const DEGRADED_FABRIC_TAINT: &str = "compute-domain.nvidia.com/degraded-fabric";

/// Field manager of the node plugin's reports in `status.devices` of claims. The Go driver does not
/// report there.
pub const CLAIM_REPORTER: &str = "compute-domain-kubelet-plugin";

/// Name of the `Lease` that says which ComputeDomain has this channel.
pub fn channel_lease_name(number: u32) -> String {
    format!("imex-channel-{number:04}")
}

/// Name of the device in the slice that is this channel.
pub fn channel_device_name(id: u32) -> String {
    format!("channel-{id}")
}
