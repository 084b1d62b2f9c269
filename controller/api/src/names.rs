//! Names shared with the Go driver and users' manifests. They must not change.

/// Name of the DRA driver in opaque configs, `ResourceSlices` and allocation results.
pub const DRIVER_NAME: &str = "compute-domain.nvidia.com";

/// `apiVersion` of `ComputeDomain` and of the opaque configs.
pub const API_VERSION: &str = "resource.nvidia.com/v1beta1";

/// Label with the UID of the ComputeDomain to which an object belongs.
pub const DOMAIN_LABEL: &str = "resource.nvidia.com/computeDomain";

/// Annotation of claims with the name of their ComputeDomain, which saves a lookup by UID. The Go driver lacks it.
pub const DOMAIN_NAME_ANNOTATION: &str = "resource.nvidia.com/computeDomainName";

/// Annotation of a claim template with the namespace of its ComputeDomain. A template in another namespace is a copy.
/// The Go driver lacks it.
pub const DOMAIN_NAMESPACE_ANNOTATION: &str = "resource.nvidia.com/computeDomainNamespace";

/// Finalizer of `ComputeDomains` and their claim templates. As in the Go driver, the same string as the label.
pub const FINALIZER: &str = DOMAIN_LABEL;

/// Label with the purpose of a claim template: [`TARGET_WORKLOAD`] or [`TARGET_DAEMON`].
pub const TARGET_LABEL: &str = "resource.nvidia.com/computeDomainTarget";

/// Value of [`TARGET_LABEL`] for the template that users' pods reference.
pub const TARGET_WORKLOAD: &str = "Workload";

/// Value of [`TARGET_LABEL`] for the template of IMEX daemon pods, which only the Go driver's driver-managed mode
/// creates. Used to detect leftovers of it.
pub const TARGET_DAEMON: &str = "Daemon";

/// `DeviceClass` that selects channel 0 of a node.
pub const CHANNEL_DEVICE_CLASS: &str = "compute-domain-default-channel.nvidia.com";

/// `DeviceClass` that selects a channel of a clique, for a group of pods.
pub const GROUP_DEVICE_CLASS: &str = "compute-domain-clique-channel.nvidia.com";

/// Name of the only request in the workload claim template.
pub const CHANNEL_REQUEST: &str = "channel";

/// Attribute of a published device: its type. The key has no domain, as in the Go driver's slices.
pub const DEVICE_TYPE_ATTRIBUTE: &str = "type";

/// Value of [`DEVICE_TYPE_ATTRIBUTE`] for an IMEX channel.
pub const DEVICE_TYPE_CHANNEL: &str = "channel";

/// Value of [`DEVICE_TYPE_ATTRIBUTE`] for an IMEX channel of a clique, for a group of pods.
pub const DEVICE_TYPE_CLIQUE_CHANNEL: &str = "clique-channel";

/// Attribute of a published device: the channel's number.
pub const DEVICE_ID_ATTRIBUTE: &str = "id";

/// Attribute of a published device whose node has a clique: `CLUSTER-UUID.CLIQUE-ID`. The Go driver lacks it.
pub const CLIQUE_ATTRIBUTE: &str = "clique";

/// Label of nodes with their clique, in the format of [`CLIQUE_ATTRIBUTE`]. Other programs may write it, too.
pub const CLIQUE_LABEL: &str = "nvidia.com/gpu.clique";

/// Prefix of the name of a clique's pool.
const GROUP_POOL_PREFIX: &str = "clique-";

/// Capacity of a published device that many claims can share. A claim that requests one slot shares the device; a
/// claim that requests none takes all of them. The Go driver lacks it.
pub const SLOTS_CAPACITY: &str = "slots";

/// Alternative of [`CHANNEL_REQUEST`] that shares a node's device.
pub const SHARE_ALTERNATIVE: &str = "share";

/// Alternative of [`CHANNEL_REQUEST`] that takes a node's whole device, where devices are not shared.
pub const WHOLE_ALTERNATIVE: &str = "whole";

/// Label of the `Lease` that assigns an IMEX channel to a ComputeDomain; the value is the channel's number.
pub const CHANNEL_LABEL: &str = "resource.nvidia.com/imexChannel";

/// Reason of a ComputeDomain's condition `Ready` while its `status.channel` is assigned to another ComputeDomain or
/// to none. Nodes then prepare no claim of it.
pub const CHANNEL_NOT_CONFIRMED_REASON: &str = "ChannelNotConfirmed";

/// Taint key of the device of a node without a clique.
pub const NO_CLIQUE_TAINT: &str = "compute-domain.nvidia.com/no-clique";

/// Taint key of a shared device that is to become exclusive, until no claim holds it.
pub const SHARING_ENDS_TAINT: &str = "compute-domain.nvidia.com/sharing-ends";

/// Taint key of the device of a node with a degraded fabric.
pub const DEGRADED_FABRIC_TAINT: &str = "compute-domain.nvidia.com/degraded-fabric";

/// Field manager of the node plugin for `status.devices` of claims. The Go driver does not write there.
pub const CLAIM_REPORTER: &str = "compute-domain-kubelet-plugin";

/// Name of the `Lease` that assigns this channel to a ComputeDomain.
pub fn channel_lease_name(number: u32) -> String {
    format!("imex-channel-{number:04}")
}

/// Name of the pool with the channels of a clique: a DNS subdomain, if `clique` is one.
pub fn group_pool_name(clique: &str) -> String {
    format!("{GROUP_POOL_PREFIX}{clique}")
}

/// The clique whose channels are in this pool; `None` for the pool of a node.
///
/// A clique is `CLUSTER-UUID.CLIQUE-ID` in lower case. A node may have any name except the prefix followed by a
/// clique.
pub fn clique_of_pool(pool: &str) -> Option<&str> {
    pool.strip_prefix(GROUP_POOL_PREFIX)
        .filter(|clique| is_clique(clique))
}

/// Whether the text is a clique in the format of NVML's values: `CLUSTER-UUID.CLIQUE-ID` with lower-case hexadecimal
/// digits and a decimal number.
pub fn is_clique(text: &str) -> bool {
    let Some((uuid, id)) = text.split_once('.') else {
        return false;
    };
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let parts = uuid.split('-');
    let is_uuid = parts.clone().map(str::len).eq([8, 4, 4, 4, 12])
        && parts.flat_map(str::as_bytes).all(is_digit);
    is_uuid
        && id
            .parse::<u32>()
            .is_ok_and(|number| number.to_string() == id)
}

/// Name of the device in the slice that is this channel.
pub fn channel_device_name(id: u32) -> String {
    format!("channel-{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_of_a_clique_is_told_from_those_of_nodes() {
        let clique = "01234567-89ab-cdef-1032-547698badcfe.4294967295";
        let pool = group_pool_name(clique);
        assert_eq!(clique_of_pool(&pool), Some(clique));
        for node in ["node-1", "clique-1.example.com", clique, "clique-"] {
            assert_eq!(clique_of_pool(node), None, "{node}");
        }
    }

    #[test]
    fn a_clique_has_exactly_the_form_that_nodes_publish() {
        let uuid = "01234567-89ab-cdef-1032-547698badcfe";
        assert!(is_clique(&format!("{uuid}.0")) && is_clique(&format!("{uuid}.10")));
        for text in [
            String::new(),
            uuid.to_owned(),
            format!("{uuid}."),
            format!("{uuid}.01"),
            format!("{uuid}.+1"),
            format!("{uuid}.4294967296"),
            format!("{uuid}.1.1"),
            format!("{}.1", uuid.to_uppercase()),
            format!("{}.1", uuid.replace('-', "")),
            format!("{uuid}-0.1"),
            format!("{}.1", uuid.replace('0', "é")),
        ] {
            assert!(!is_clique(&text), "{text}");
        }
    }
}
