//! Checks that the driver offers channels, and that the host's device nodes match them.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `driver-too-old` | warning, or info without the plugin | the loaded module lacks a file that drivers with IMEX channels have |
//! | `driver-file-*` | warning | such a file cannot be read or parsed |
//! | `imex-channels-disabled` | error | the module's option sets the number of channels to 0 |
//! | `modify-device-files-off` | warning with the plugin or while the host's daemon is down, else info | nvidia-modprobe is not allowed to create device nodes |
//! | `imex-channel0-open-to-all` | warning, or info | the module creates channel 0 for every user of the host: a warning if claims should isolate |
//! | `imex-channels-open-to-all` | the same | channel nodes that the module did not create are open to every user |
//! | `imex-channel-major-*`, `device-list-*` | error | the device list has no usable major for channels |
//! | `imex-node-wrong` | error | a device node of the host has another device's numbers |
//! | `nvidia-caps-major-missing` | warning | the device list has no major for capabilities |
//! | `imex-capability-node-*` | warning | the node that nvidia-imex needs is wrong, cannot be examined, or is missing while nvidia-imex is down |

use imex_cdi::{
    CHANNEL_DIR, DRIVER_PARAMS, DeviceType, DriverParams, HostNode, IMEX_MGMT_CAPABILITY, Major,
    PROC_DEVICES,
};

use crate::diagnosis::AreaReport;
use crate::facts::channels::{
    CAPABILITY_DRIVER, COMMAND_LINE, CapabilityFacts, ChannelFacts, ChannelNode, DriverFileFailure,
};
use crate::finding::{Finding, Severity};
use crate::spec_node::device_numbers;
use crate::text::and_more;

/// Others may read or write.
const OPEN_TO_ALL: u32 = 0o006;

/// Facts of other areas that matter here.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Context {
    pub(super) module_is_loaded: bool,
    /// The host should run its IMEX daemon, but does not.
    pub(super) imex_is_down: bool,
    /// The kubelet plugin is or was on this node: claims give channels.
    pub(super) has_plugin: bool,
}

pub(super) fn check(facts: &ChannelFacts, context: Context) -> AreaReport {
    if !context.module_is_loaded {
        return AreaReport::skipped("none: the nvidia module is not loaded");
    }
    let mut findings = Vec::new();
    let params = match &facts.params {
        Ok(params) => *params,
        Err(error) => {
            findings.push(unusable(DRIVER_PARAMS, error, context));
            DriverParams::default()
        }
    };
    findings.extend(check_params(params, context));
    findings.extend(channel0_open_to_all(facts, params, context.has_plugin));
    let disabled = params.imex_channel_count == Some(0);
    let summary = match &facts.major {
        Ok(major) => {
            let count = params.imex_channel_count;
            let count = count.map_or_else(|| "?".to_owned(), |count| count.to_string());
            findings.extend(check_nodes(&facts.nodes, *major));
            let made_by_module = params.create_imex_channel0 == Some(true);
            let nodes = facts.nodes.iter();
            let nodes = nodes.filter(|node| !made_by_module || node.number != 0);
            findings.extend(open_to_all(nodes, *major, context.has_plugin));
            findings.extend(match &facts.capability {
                Ok(capability) => check_capability(capability, context.imex_is_down),
                Err(error) => Some(unusable(IMEX_MGMT_CAPABILITY, error, context)),
            });
            format!("{count} channels, major {}", major.get())
        }
        Err(error) => {
            // A driver without channels has no capability to manage them either.
            let mut is_too_old = false;
            if let Err(missing @ DriverFileFailure::Absent) = &facts.capability {
                findings.push(unusable(IMEX_MGMT_CAPABILITY, missing, context));
                is_too_old = true;
            }
            // If nothing gives channels, one finding about an old driver is enough.
            if !disabled && (context.has_plugin || !is_too_old) {
                findings.push(Finding::of(Severity::Error, PROC_DEVICES, error));
            }
            "none".to_owned()
        }
    };
    AreaReport::new(summary, findings)
}

/// The finding for a missing or unusable file of the loaded module.
fn unusable(path: &str, failure: &DriverFileFailure, context: Context) -> Finding {
    match failure {
        DriverFileFailure::Absent => Finding::new(
            Severity::for_claims(context.has_plugin),
            "driver-too-old",
            path,
            "the loaded nvidia module does not provide this file",
            "update the NVIDIA driver to a version with IMEX channels",
        ),
        DriverFileFailure::Unusable(error) => Finding::of(Severity::Warning, path, error),
    }
}

/// Checks the options that an administrator sets in `/etc/modprobe.d`. An option that the
/// driver does not have is no finding.
fn check_params(params: DriverParams, context: Context) -> Vec<Finding> {
    let mut findings = Vec::new();
    if params.imex_channel_count == Some(0) {
        findings.push(Finding::error(
            "imex-channels-disabled",
            DRIVER_PARAMS,
            "ImexChannelCount is 0: the driver offers no channels",
            "remove NVreg_ImexChannelCount=0 from /etc/modprobe.d, rebuild the initramfs and reboot",
        ));
    }
    if params.modify_device_files == Some(false) {
        let matters = context.has_plugin || context.imex_is_down;
        findings.push(Finding::new(
            Severity::for_claims(matters),
            "modify-device-files-off",
            DRIVER_PARAMS,
            "ModifyDeviceFiles is 0: nvidia-modprobe creates no device nodes, but reports success",
            "remove NVreg_ModifyDeviceFiles=0 from /etc/modprobe.d, or let udev create the device nodes",
        ));
    }
    findings
}

/// Checks the option that opens channel 0 to all. The driver's log calls it an option for
/// trusted hosts; AKS sets it. The node has mode 0666 (nv-caps-imex.c of NVIDIA's open
/// kernel modules).
fn channel0_open_to_all(
    facts: &ChannelFacts,
    params: DriverParams,
    has_plugin: bool,
) -> Option<Finding> {
    let is_open = params.create_imex_channel0 == Some(true);
    let option = facts.channel0_option.as_deref();
    let remove = match option {
        Some(COMMAND_LINE) => {
            "remove nvidia.NVreg_CreateImexChannel0=1 from the kernel command line (boot loader) and reboot".to_owned()
        }
        file => format!(
            "remove NVreg_CreateImexChannel0=1 from {}, rebuild the initramfs and reboot",
            file.unwrap_or("/etc/modprobe.d")
        ),
    };
    let fix = format!("if you do not trust all these users: {remove}");
    let (severity, subject, evidence) = match option {
        _ if is_open => (
            Severity::for_claims(has_plugin),
            DRIVER_PARAMS,
            "CreateImexChannel0 is 1: any host user and any privileged container can open channel 0 without a claim, so channel 0 isolates nothing",
        ),
        Some(file) => (
            Severity::Info,
            file,
            "when the module is loaded again, any host user and any privileged container can open channel 0 without a claim",
        ),
        None => return None,
    };
    let id = "imex-channel0-open-to-all";
    Some(Finding::new(severity, id, subject, evidence, fix))
}

/// Nodes that were created by hand, with the same effect as the module's option for channel 0.
fn open_to_all<'a>(
    nodes: impl Iterator<Item = &'a ChannelNode>,
    major: Major,
    has_plugin: bool,
) -> Option<Finding> {
    let is_open = |node: &&ChannelNode| match node.found {
        HostNode::Device(found) => {
            found.major == i64::from(major.get()) && found.mode & OPEN_TO_ALL != 0
        }
        HostNode::NotADevice => false,
    };
    let mut open = nodes.filter(is_open);
    let first = open.next()?;
    let more = and_more(open.count());
    Some(Finding::new(
        Severity::for_claims(has_plugin),
        "imex-channels-open-to-all",
        &first.path,
        format!(
            "any host user and any privileged container can open this device node{more} without a claim"
        ),
        format!(
            "if you do not trust all these users: chmod o= {CHANNEL_DIR}/channel*, or remove the device nodes. Keep the device nodes that pods with hostUsers: false use; for all other pods, the runtime creates device nodes inside the container"
        ),
    ))
}

/// The host needs no device nodes if the runtime creates them, but existing nodes must be the
/// driver's.
fn check_nodes(nodes: &[ChannelNode], major: Major) -> Option<Finding> {
    let mut wrong = nodes.iter().filter_map(|node| {
        let channel = (i64::from(major.get()), i64::from(node.number));
        let mismatch = mismatch(node.found, "the driver's channel", channel)?;
        Some((&node.path, mismatch))
    });
    let (path, mismatch) = wrong.next()?;
    let more = and_more(wrong.count());
    Some(Finding::error(
        "imex-node-wrong",
        path,
        format!("{mismatch}{more}"),
        format!(
            "rm {CHANNEL_DIR}/channel*; for containers with a claim, the runtime creates the correct device nodes"
        ),
    ))
}

/// Checks the capability with which nvidia-imex manages channels. The host's nvidia-imex needs
/// its device node to start; containers do not. nvidia-imex would open a node with another
/// capability's numbers and get the wrong rights.
fn check_capability(capability: &CapabilityFacts, imex_is_down: bool) -> Option<Finding> {
    let node = capability.node_path();
    let Some(major) = capability.major else {
        return Some(Finding::warning(
            "nvidia-caps-major-missing",
            PROC_DEVICES,
            format!(
                "{CAPABILITY_DRIVER} is not among the character devices: the correct major and minor of {node} are unknown"
            ),
            "reload the nvidia kernel module",
        ));
    };
    let make = format!("nvidia-modprobe -f {IMEX_MGMT_CAPABILITY}");
    let (id, evidence, fix) = match &capability.node {
        Ok(Some(found)) => {
            let expected = format!("the capability in {IMEX_MGMT_CAPABILITY}");
            let mismatch = mismatch(*found, &expected, (major, capability.minor.into()))?;
            (
                "imex-capability-node-wrong",
                format!("{mismatch}: nvidia-imex cannot start"),
                format!("rm {node} && {make}"),
            )
        }
        // A running daemon had a node: its container's, or one created for it.
        Ok(None) if !imex_is_down => return None,
        Ok(None) => (
            "imex-capability-node-missing",
            format!(
                "this device node does not exist, and nvidia-imex cannot start without it ({IMEX_MGMT_CAPABILITY})"
            ),
            make,
        ),
        Err(reason) => (
            "imex-capability-node-unreadable",
            format!("this device node cannot be examined: {reason}"),
            "run cdi-gen doctor as root".to_owned(),
        ),
    };
    Some(Finding::warning(id, node, evidence, fix))
}

/// Why a node of the host is not `expected`, a character device with these numbers.
fn mismatch(node: HostNode, expected: &str, (major, minor): (i64, i64)) -> Option<String> {
    let HostNode::Device(device) = node else {
        return Some("this path is not a device node".to_owned());
    };
    let found = device_numbers(device.device_type, device.major, device.minor);
    let numbers = device_numbers(DeviceType::Char, major, minor);
    (found != numbers).then(|| format!("this device node is {found}, but {expected} is {numbers}"))
}

#[cfg(test)]
mod tests {
    use imex_cdi::HostDevice;

    use super::*;

    /// A driver with channels of major 235, and a capability without a node.
    fn facts() -> ChannelFacts {
        ChannelFacts {
            params: Ok(DriverParams {
                imex_channel_count: Some(2048),
                ..DriverParams::default()
            }),
            channel0_option: None,
            major: Ok(Major::new(235).unwrap()),
            nodes: vec![],
            capability: Ok(CapabilityFacts {
                minor: 3,
                major: Some(234),
                node: Ok(None),
            }),
        }
    }

    fn context(imex_is_down: bool) -> Context {
        Context {
            module_is_loaded: true,
            imex_is_down,
            has_plugin: false,
        }
    }

    #[test]
    fn a_channel_open_to_all_is_a_warning_only_with_the_plugin() {
        let mut facts = facts();
        facts.params = Ok(DriverParams {
            create_imex_channel0: Some(true),
            ..DriverParams::default()
        });
        let of = |has_plugin| {
            let context = Context {
                has_plugin,
                ..context(false)
            };
            check(&facts, context).worst()
        };
        assert_eq!(of(false), Some(Severity::Info));
        assert_eq!(of(true), Some(Severity::Warning));
    }

    fn ids(facts: &ChannelFacts, imex_is_down: bool) -> Vec<&'static str> {
        let findings = check(facts, context(imex_is_down)).findings;
        findings.iter().map(|it| it.id).collect()
    }

    #[test]
    fn a_driver_with_channels_needs_no_nodes() {
        assert_eq!(ids(&facts(), false), [""; 0]);
        assert_eq!(
            check(&facts(), context(false)).summary,
            "2048 channels, major 235"
        );
        assert!(check(&facts(), Context::default()).skipped);
    }

    #[test]
    fn a_missing_capability_node_is_reported_only_while_the_daemon_is_down() {
        assert_eq!(ids(&facts(), true), ["imex-capability-node-missing"]);
        let mut facts = facts();
        facts.capability = Err(DriverFileFailure::Absent);
        assert_eq!(ids(&facts, false), ["driver-too-old"]);
    }

    #[test]
    fn nodes_open_to_all_are_reported_unless_the_module_creates_them() {
        let node = |number: u32, mode| {
            let HostNode::Device(found) = device(DeviceType::Char, 235, number.into()) else {
                unreachable!()
            };
            ChannelNode {
                path: format!("{CHANNEL_DIR}/channel{number}"),
                number,
                found: HostNode::Device(HostDevice { mode, ..found }),
            }
        };
        let mut facts = facts();
        facts.nodes = vec![node(0, 0o600), node(1, 0o666), node(2, 0o662)];
        let plugin = Context {
            has_plugin: true,
            ..context(false)
        };
        let findings = check(&facts, plugin).findings;
        let [open] = findings.as_slice() else {
            panic!("{findings:?}");
        };
        let subject = format!("{CHANNEL_DIR}/channel1");
        assert_eq!(
            (open.id, open.subject.as_str(), open.severity),
            ("imex-channels-open-to-all", &*subject, Severity::Warning)
        );
        assert!(open.evidence.contains("1 more"), "{}", open.evidence);
        assert_eq!(check(&facts, context(false)).worst(), Some(Severity::Info));
        facts.nodes = vec![node(0, 0o666)];
        facts.params = Ok(DriverParams {
            create_imex_channel0: Some(true),
            ..DriverParams::default()
        });
        let findings = check(&facts, plugin).findings;
        let ids: Vec<_> = findings.iter().map(|it| it.id).collect();
        assert_eq!(ids, ["imex-channel0-open-to-all"]);
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
        let findings = check(&facts, context(false)).findings;
        let [wrong] = findings.as_slice() else {
            panic!("{findings:?}");
        };
        assert_eq!(wrong.id, "imex-node-wrong");
        let evidence =
            "this device node is c 234:0, but the driver's channel is c 235:0 (and 2 more like it)";
        assert_eq!(wrong.evidence, evidence);
    }

    fn device(device_type: DeviceType, major: i64, minor: i64) -> HostNode {
        HostNode::Device(HostDevice {
            device_type,
            major,
            minor,
            mode: 0o666,
        })
    }

    #[test]
    fn a_channel_node_must_have_the_right_type_and_both_numbers() {
        let mismatch = |node| mismatch(node, "the channel", (235, 3));
        assert_eq!(mismatch(device(DeviceType::Char, 235, 3)), None);
        for (other, why) in [
            (
                device(DeviceType::Char, 234, 3),
                "this device node is c 234:3, but the channel is c 235:3",
            ),
            (
                device(DeviceType::Char, 235, 0),
                "this device node is c 235:0, but the channel is c 235:3",
            ),
            (
                device(DeviceType::Block, 235, 3),
                "this device node is b 235:3, but the channel is c 235:3",
            ),
            (
                device(DeviceType::Fifo, 0, 0),
                "this device node is p, but the channel is c 235:3",
            ),
            (HostNode::NotADevice, "this path is not a device node"),
        ] {
            assert_eq!(mismatch(other).as_deref(), Some(why), "{other:?}");
        }
    }
}
