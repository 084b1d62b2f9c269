//! Whether the driver offers channels, and the host's device nodes are theirs.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `driver-too-old` | warning | the loaded module does not have a file that drivers with IMEX channels have |
//! | `driver-file-*` | warning | such a file cannot be read or understood |
//! | `imex-channels-disabled` | error | the module's option says that there are no channels |
//! | `modify-device-files-off` | warning | nvidia-modprobe is not allowed to make device nodes |
//! | `imex-channel0-open-to-all` | info | the module makes channel 0 for every user of the host |
//! | `imex-channel-major-*`, `device-list-*` | error | the device list has no usable major of the channels |
//! | `imex-node-wrong` | error | a host's device node has numbers of another device |
//! | `nvidia-caps-major-missing` | warning | the device list has no major of capabilities |
//! | `imex-capability-node-*` | warning | the node that nvidia-imex needs is wrong, cannot be examined, or is missing while it is down |

use imex_cdi::{
    CHANNEL_DIR, DRIVER_PARAMS, DeviceType, DriverParams, HostNode, IMEX_MGMT_CAPABILITY, Major,
    PROC_DEVICES,
};

use crate::area::AreaReport;
use crate::facts::channels::{
    CAPABILITY_DRIVER, CapabilityFacts, ChannelFacts, ChannelNode, DriverFileFailure, NodeLookup,
};
use crate::finding::Finding;
use crate::spec_node::device_numbers;

/// `imex_is_down`: the host IMEX daemon is installed and does not run.
pub(super) fn check(
    facts: &ChannelFacts,
    module_is_loaded: bool,
    imex_is_down: bool,
) -> AreaReport {
    if !module_is_loaded {
        return AreaReport::skipped("none: the nvidia module is not loaded");
    }
    let mut findings = Vec::new();
    let params = match &facts.params {
        Ok(params) => *params,
        Err(error) => {
            findings.push(unusable(DRIVER_PARAMS, error));
            DriverParams::default()
        }
    };
    findings.extend(check_params(params));
    let disabled = params.imex_channel_count == Some(0);
    let summary = match &facts.major {
        Ok(major) => {
            let count = params.imex_channel_count;
            let count = count.map_or_else(|| "?".to_owned(), |count| count.to_string());
            findings.extend(check_nodes(&facts.nodes, *major));
            findings.extend(check_capability(facts, imex_is_down));
            format!("{count} channels, major {}", major.get())
        }
        Err(error) => {
            if !disabled {
                findings.push(Finding::error(
                    error.code,
                    PROC_DEVICES,
                    &error.message,
                    &error.hint,
                ));
            }
            "none".to_owned()
        }
    };
    AreaReport::new(summary, findings)
}

/// A loaded module does not have a file that does not exist.
fn unusable(path: &str, failure: &DriverFileFailure) -> Finding {
    match failure {
        DriverFileFailure::Absent => Finding::warning(
            "driver-too-old",
            path,
            "the loaded nvidia module has no such file",
            "update the NVIDIA driver to one that has IMEX channels",
        ),
        DriverFileFailure::Unusable(error) => {
            Finding::warning(error.code, path, &error.message, &error.hint)
        }
    }
}

/// Options that an administrator sets in `/etc/modprobe.d`. An option that the
/// driver does not have is no finding.
fn check_params(params: DriverParams) -> Vec<Finding> {
    let mut findings = Vec::new();
    if params.imex_channel_count == Some(0) {
        findings.push(Finding::error(
            "imex-channels-disabled",
            DRIVER_PARAMS,
            "ImexChannelCount is 0: the driver makes no channel",
            "remove NVreg_ImexChannelCount=0 from /etc/modprobe.d, rebuild the initramfs, reboot",
        ));
    }
    if params.modify_device_files == Some(false) {
        findings.push(Finding::warning(
            "modify-device-files-off",
            DRIVER_PARAMS,
            "ModifyDeviceFiles is 0: nvidia-modprobe makes no node, and says that it did",
            "remove NVreg_ModifyDeviceFiles=0 from /etc/modprobe.d, or have udev make the nodes",
        ));
    }
    if params.create_imex_channel0 == Some(true) {
        findings.push(Finding::info(
            "imex-channel0-open-to-all",
            DRIVER_PARAMS,
            "CreateImexChannel0 is 1: every user of the host may open channel 0",
            "remove NVreg_CreateImexChannel0=1 from /etc/modprobe.d unless all users are trusted",
        ));
    }
    findings
}

/// Device nodes are not needed where the runtime makes them; those that exist
/// must be the driver's.
fn check_nodes(nodes: &[ChannelNode], major: Major) -> Option<Finding> {
    let mut wrong = nodes.iter().filter_map(|node| {
        let channel = (i64::from(major.get()), i64::from(node.number));
        let mismatch = mismatch(node.found, "the driver's channel", channel)?;
        Some((&node.path, mismatch))
    });
    let (path, mismatch) = wrong.next()?;
    let more = match wrong.count() {
        0 => String::new(),
        n => format!(" (and {n} more nodes like it)"),
    };
    Some(Finding::error(
        "imex-node-wrong",
        path,
        format!("{mismatch}{more}"),
        format!(
            "rm {CHANNEL_DIR}/channel* and let what needs nodes on the host make them again (nvidia-modprobe -i 0:1)"
        ),
    ))
}

/// Why a node of the host is not `expected`, a character device of these
/// numbers.
fn mismatch(node: HostNode, expected: &str, (major, minor): (i64, i64)) -> Option<String> {
    let HostNode::Device(device) = node else {
        return Some("it is not a device node".to_owned());
    };
    let found = device_numbers(device.device_type, device.major, device.minor);
    let numbers = device_numbers(DeviceType::Char, major, minor);
    (found != numbers).then(|| format!("it is {found}, and {expected} is {numbers}"))
}

/// The host's nvidia-imex needs it to start; containers do not.
fn check_capability(facts: &ChannelFacts, imex_is_down: bool) -> Option<Finding> {
    let capability = match &facts.capability {
        Ok(capability) => capability,
        Err(error) => return Some(unusable(IMEX_MGMT_CAPABILITY, error)),
    };
    let node = capability.node_path();
    let Some(major) = capability.major else {
        return Some(Finding::warning(
            "nvidia-caps-major-missing",
            PROC_DEVICES,
            format!(
                "no {CAPABILITY_DRIVER} among the character devices: what {node} should be is not known"
            ),
            "reload the nvidia kernel module",
        ));
    };
    check_capability_node(capability, major, imex_is_down)
}

/// A node with another capability's numbers would be opened, and give nvidia-imex
/// the wrong rights.
fn check_capability_node(
    capability: &CapabilityFacts,
    major: i64,
    imex_is_down: bool,
) -> Option<Finding> {
    let node = capability.node_path();
    let make = format!("nvidia-modprobe -f {IMEX_MGMT_CAPABILITY}");
    match &capability.node {
        NodeLookup::Found(found) => {
            let expected = format!("the capability that {IMEX_MGMT_CAPABILITY} names");
            let mismatch = mismatch(*found, &expected, (major, capability.minor.into()))?;
            Some(Finding::warning(
                "imex-capability-node-wrong",
                node.clone(),
                format!("{mismatch}: nvidia-imex cannot start with it"),
                format!("rm {node} && {make}"),
            ))
        }
        // One that runs has had a node: its container's, or one made for it.
        NodeLookup::Absent if !imex_is_down => None,
        NodeLookup::Absent => Some(Finding::warning(
            "imex-capability-node-missing",
            node,
            format!("{IMEX_MGMT_CAPABILITY} names it, and nvidia-imex cannot start without it"),
            make,
        )),
        NodeLookup::Unreadable(reason) => Some(Finding::warning(
            "imex-capability-node-unreadable",
            node,
            format!("it cannot be examined: {reason}"),
            "run cdi-gen doctor as root",
        )),
    }
}

#[cfg(test)]
mod tests {
    use imex_cdi::HostDevice;

    use super::*;

    fn device(device_type: DeviceType, major: i64, minor: i64) -> HostNode {
        HostNode::Device(HostDevice {
            device_type,
            major,
            minor,
            mode: 0o666,
        })
    }

    /// A driver with channels of major 235, and a capability without a node.
    fn facts() -> ChannelFacts {
        ChannelFacts {
            params: Ok(DriverParams {
                imex_channel_count: Some(2048),
                ..DriverParams::default()
            }),
            major: Ok(Major::new(235).unwrap()),
            nodes: vec![],
            capability: Ok(CapabilityFacts {
                minor: 3,
                major: Some(234),
                node: NodeLookup::Absent,
            }),
        }
    }

    fn ids(facts: &ChannelFacts, imex_is_down: bool) -> Vec<&'static str> {
        let findings = check(facts, true, imex_is_down).findings;
        findings.iter().map(|it| it.id).collect()
    }

    #[test]
    fn a_driver_with_channels_and_no_nodes_is_well() {
        assert_eq!(ids(&facts(), false), [""; 0]);
        assert_eq!(
            check(&facts(), true, false).summary,
            "2048 channels, major 235"
        );
        assert!(check(&facts(), false, false).skipped);
    }

    #[test]
    fn the_capability_is_missed_only_while_the_daemon_is_down() {
        assert_eq!(ids(&facts(), true), ["imex-capability-node-missing"]);
        let mut facts = facts();
        facts.capability = Err(DriverFileFailure::Absent);
        assert_eq!(ids(&facts, false), ["driver-too-old"]);
    }

    #[test]
    fn wrong_nodes_are_one_finding() {
        let mut facts = facts();
        facts.nodes = (0..3)
            .map(|number| ChannelNode {
                path: format!("{CHANNEL_DIR}/channel{number}"),
                number,
                found: device(DeviceType::Char, 234, number.into()),
            })
            .collect();
        let findings = check(&facts, true, false).findings;
        let [wrong] = findings.as_slice() else {
            panic!("{findings:?}");
        };
        assert_eq!(wrong.id, "imex-node-wrong");
        let evidence =
            "it is c 234:0, and the driver's channel is c 235:0 (and 2 more nodes like it)";
        assert_eq!(wrong.evidence, evidence);
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
