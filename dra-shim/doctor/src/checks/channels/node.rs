//! Whether a device node of the host is the one that the driver means.

use imex_cdi::{DeviceType, HostNode};

use crate::spec_node::device_numbers;

/// Why a node of the host is not `expected`, a character device of these
/// numbers.
pub(super) fn mismatch(
    node: HostNode,
    expected: &str,
    (major, minor): (i64, i64),
) -> Option<String> {
    let HostNode::Device(device) = node else {
        return Some("it is not a device node".to_owned());
    };
    let found = device_numbers(device.device_type, device.major, device.minor);
    let numbers = device_numbers(DeviceType::Char, major, minor);
    (found != numbers).then(|| format!("it is {found}, and {expected} is {numbers}"))
}

#[cfg(test)]
pub(super) mod tests {
    use imex_cdi::HostDevice;

    use super::*;

    pub(in crate::checks::channels) fn device(
        device_type: DeviceType,
        major: i64,
        minor: i64,
    ) -> HostNode {
        HostNode::Device(HostDevice {
            device_type,
            major,
            minor,
            mode: 0o666,
        })
    }

    #[test]
    fn a_node_is_the_channel_only_with_its_type_and_both_numbers() {
        let mismatch = |node| mismatch(node, "the channel", (235, 3));
        assert_eq!(mismatch(device(DeviceType::Char, 235, 3)), None);
        for (other, why) in [
            (
                device(DeviceType::Char, 234, 3),
                "it is c 234:3, and the channel is c 235:3",
            ),
            (
                device(DeviceType::Char, 235, 0),
                "it is c 235:0, and the channel is c 235:3",
            ),
            (
                device(DeviceType::Block, 235, 3),
                "it is b 235:3, and the channel is c 235:3",
            ),
            (
                device(DeviceType::Fifo, 0, 0),
                "it is p, and the channel is c 235:3",
            ),
            (HostNode::NotADevice, "it is not a device node"),
        ] {
            assert_eq!(mismatch(other).as_deref(), Some(why), "{other:?}");
        }
    }
}
