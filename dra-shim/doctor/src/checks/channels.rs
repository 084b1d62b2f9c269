//! IMEX channels as the kernel module offers them.

use std::io::ErrorKind;

use compute_domain_node::error_chain;
use imex_cdi::{
    CHANNEL_DIR, Capability, DRIVER_PARAMS, DeviceType, DriverFileError, DriverParams, HostNode,
    HostNodes, IMEX_MGMT_CAPABILITY, Major, PROC_DEVICES, read_channel_major,
};

use super::driver::Driver;
use super::imex;
use crate::area::AreaReport;
use crate::files::{HostFiles, is_absent};
use crate::finding::Finding;
use crate::majors::Majors;
use crate::spec_node::device_numbers;

/// The driver of capabilities' nodes in the device list.
const CAPABILITY_DRIVER: &str = "nvidia-caps";

pub(super) fn check(files: &HostFiles, driver: &Driver) -> AreaReport {
    if driver.module.is_none() {
        return AreaReport::skipped("none: the nvidia module is not loaded");
    }
    let mut findings = Vec::new();
    let params = match DriverParams::read(files.at(DRIVER_PARAMS)) {
        Ok(params) => params,
        Err(error) => {
            findings.push(unreadable(files, DRIVER_PARAMS, &error));
            DriverParams::default()
        }
    };
    findings.extend(of_params(params));
    let major = read_channel_major(files.at(PROC_DEVICES));
    let disabled = params.imex_channel_count == Some(0);
    let summary = match &major {
        Ok(major) => {
            let count = params.imex_channel_count;
            let count = count.map_or_else(|| "?".to_owned(), |count| count.to_string());
            findings.extend(of_nodes(files, *major));
            format!("{count} channels, major {}", major.get())
        }
        Err(error) => {
            if !disabled {
                let evidence = error_chain(error);
                let finding = Finding::error(error.code(), PROC_DEVICES, evidence, error.hint());
                findings.push(finding.naming(files, &files.at(PROC_DEVICES)));
            }
            "none".to_owned()
        }
    };
    if major.is_ok() {
        findings.extend(of_capability(files));
    }
    AreaReport::new(summary, findings)
}

/// Of a module that is loaded, a file that is not there is one that it does
/// not have.
fn unreadable(files: &HostFiles, path: &str, error: &DriverFileError) -> Finding {
    match error {
        DriverFileError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
            Finding::warning(
                "driver-too-old",
                path,
                "the loaded nvidia module has no such file",
                "update the NVIDIA driver to one that has IMEX channels",
            )
        }
        _ => {
            let finding = Finding::warning(error.code(), path, error_chain(error), error.hint());
            finding.naming(files, &files.at(path))
        }
    }
}

fn of_params(params: DriverParams) -> Vec<Finding> {
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

/// Nodes are not needed where the runtime makes them; those that are there
/// must be the driver's.
fn of_nodes(files: &HostFiles, major: Major) -> Vec<Finding> {
    let names = files.names(CHANNEL_DIR);
    let channels = names.iter().filter_map(|name| {
        let minor = name.strip_prefix("channel")?.parse::<u32>().ok()?;
        Some((format!("{CHANNEL_DIR}/{name}"), minor))
    });
    let wrong: Vec<(String, String)> = channels
        .filter_map(|(path, minor)| {
            let node = files.lstat(&path).ok()?;
            let channel = (i64::from(major.get()), i64::from(minor));
            Some((path, wrong(node, "the driver's channel", channel)?))
        })
        .collect();
    let Some((path, what)) = wrong.first() else {
        return vec![];
    };
    let more = match wrong.len() {
        1 => String::new(),
        n => format!(" (and {} more nodes like it)", n - 1),
    };
    vec![Finding::error(
        "imex-node-wrong",
        path.clone(),
        format!("{what}{more}"),
        format!(
            "rm {CHANNEL_DIR}/channel* and let what needs nodes on the host make them again (nvidia-modprobe -i 0:1)"
        ),
    )]
}

/// Why a node of the host is not `what`, a character device of those numbers.
fn wrong(node: HostNode, what: &str, (major, minor): (i64, i64)) -> Option<String> {
    let HostNode::Device(device) = node else {
        return Some("it is no device node".to_owned());
    };
    let found = device_numbers(device.device_type, device.major, device.minor);
    let expected = device_numbers(DeviceType::Char, major, minor);
    (found != expected).then(|| format!("it is {found}, and {what} is {expected}"))
}

/// What the host's nvidia-imex needs to start, and no container.
fn of_capability(files: &HostFiles) -> Option<Finding> {
    let capability = match Capability::read(files.at(IMEX_MGMT_CAPABILITY)) {
        Ok(capability) => capability,
        Err(error) => return Some(unreadable(files, IMEX_MGMT_CAPABILITY, &error)),
    };
    let node = format!("/dev/nvidia-caps/nvidia-cap{}", capability.minor);
    let Some(major) = Majors::read(&files.at(PROC_DEVICES))?.major_of(CAPABILITY_DRIVER) else {
        return Some(Finding::warning(
            "nvidia-caps-major-missing",
            PROC_DEVICES,
            format!(
                "no {CAPABILITY_DRIVER} among the character devices: what {node} should be cannot be told"
            ),
            "reload the nvidia kernel module",
        ));
    };
    let make = format!("nvidia-modprobe -f {IMEX_MGMT_CAPABILITY}");
    let of_this = format!("the capability that {IMEX_MGMT_CAPABILITY} names");
    match files.lstat(&node) {
        Ok(found) => {
            let what = wrong(found, &of_this, (major, capability.minor.into()))?;
            Some(Finding::warning(
                "imex-capability-node-wrong",
                node.clone(),
                format!("{what}: nvidia-imex cannot start with it"),
                format!("rm {node} && {make}"),
            ))
        }
        // One that runs has had a node: its container's, or one made for it.
        Err(error) if is_absent(&error) && !imex::is_down(files) => None,
        Err(error) if is_absent(&error) => Some(Finding::warning(
            "imex-capability-node-missing",
            node,
            format!("{IMEX_MGMT_CAPABILITY} names it, and nvidia-imex cannot start without it"),
            make,
        )),
        Err(error) => Some(Finding::warning(
            "imex-capability-node-unreadable",
            node,
            format!("it cannot be looked at: {error}"),
            "run cdi-gen doctor as root",
        )),
    }
}

#[cfg(test)]
mod tests {
    use imex_cdi::HostDevice;

    use super::*;

    #[test]
    fn a_node_is_the_channel_only_with_its_type_and_both_device_numbers() {
        let node = |device_type, major, minor| {
            HostNode::Device(HostDevice {
                device_type,
                major,
                minor,
                mode: 0o666,
            })
        };
        let wrong = |node| wrong(node, "the channel", (235, 3));
        assert_eq!(wrong(node(DeviceType::Char, 235, 3)), None);
        for (other, why) in [
            (
                node(DeviceType::Char, 234, 3),
                "it is c 234:3, and the channel is c 235:3",
            ),
            (
                node(DeviceType::Char, 235, 0),
                "it is c 235:0, and the channel is c 235:3",
            ),
            (
                node(DeviceType::Block, 235, 3),
                "it is b 235:3, and the channel is c 235:3",
            ),
            (
                node(DeviceType::Fifo, 0, 0),
                "it is p, and the channel is c 235:3",
            ),
            (HostNode::NotADevice, "it is no device node"),
        ] {
            assert_eq!(wrong(other).as_deref(), Some(why), "{other:?}");
        }
    }
}
