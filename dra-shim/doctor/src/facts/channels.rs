//! The IMEX channels that the kernel module offers.
//!
//! From `/proc/devices`, `/proc/driver/nvidia/params`, the capability files below
//! `/proc/driver/nvidia`, and the device nodes in `/dev`.

use std::io::ErrorKind;

use imex_cdi::{
    CHANNEL_DIR, Capability, DRIVER_PARAMS, DriverFileError, DriverParams, HostNode, HostNodes,
    IMEX_MGMT_CAPABILITY, Major, PROC_DEVICES, read_channel_major,
};

use crate::error_facts::ErrorFacts;
use crate::host::{Host, is_absent};
use crate::majors::Majors;

/// The name of the capabilities' driver in the device list.
pub(crate) const CAPABILITY_DRIVER: &str = "nvidia-caps";

/// The option that makes the module create channel 0, open to all (nv-reg.h of NVIDIA's open
/// kernel modules).
const CREATE_CHANNEL0: &str = "NVreg_CreateImexChannel0=1";

/// The directories of module options: `modprobe.d(5)`.
const MODPROBE_DIRS: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];

/// The kernel's command line, which may have module options, too: `nvidia.OPTION`
/// (`modprobe(8)`).
pub(crate) const COMMAND_LINE: &str = "/proc/cmdline";

/// The channels of a host's driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFacts {
    /// The kernel module's options.
    pub params: Result<DriverParams, DriverFileFailure>,
    /// The file of modprobe, or `/proc/cmdline`, with the option that makes the module create
    /// channel 0 for all users at its next load; `None` if there is none.
    pub channel0_option: Option<String>,
    /// The major of the channels' device nodes.
    pub major: Result<Major, ErrorFacts>,
    /// The channels' device nodes on the host, by name. They are only needed if the runtime
    /// does not create them.
    pub nodes: Vec<ChannelNode>,
    /// The capability that nvidia-imex needs to start.
    pub capability: Result<CapabilityFacts, DriverFileFailure>,
}

/// Why a file of the kernel module could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverFileFailure {
    /// It does not exist: the module is not loaded, or does not have it.
    Absent,
    /// It could not be read or parsed.
    Unusable(ErrorFacts),
}

/// A device node below [`CHANNEL_DIR`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelNode {
    /// Its path.
    pub path: String,
    /// The channel's number, from its name.
    pub number: u32,
    /// What exists at the path.
    pub found: HostNode,
}

/// A capability of the driver, and its device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityFacts {
    /// The minor that the driver names.
    pub minor: u32,
    /// The major of capabilities; `None` if the device list has none.
    pub major: Option<i64>,
    /// What exists at [`node_path`](Self::node_path), if anything; or why it cannot be examined.
    pub node: Result<Option<HostNode>, String>,
}

// === impl ChannelFacts ===

impl ChannelFacts {
    pub(crate) fn read(host: &Host) -> Self {
        let params = DriverParams::read(host.resolve(DRIVER_PARAMS));
        let capability = Capability::read(host.resolve(IMEX_MGMT_CAPABILITY));
        Self {
            params: params.map_err(|error| DriverFileFailure::new(host, DRIVER_PARAMS, &error)),
            channel0_option: option_file(host, CREATE_CHANNEL0),
            major: read_major(host),
            nodes: channel_nodes(host),
            capability: capability
                .map(|capability| CapabilityFacts::read(host, capability.minor))
                .map_err(|error| DriverFileFailure::new(host, IMEX_MGMT_CAPABILITY, &error)),
        }
    }
}

/// The first file that sets an option of the nvidia module, else the kernel's command line if it
/// does.
fn option_file(host: &Host, option: &str) -> Option<String> {
    let text = |path: &str| host.text_if_readable(path).unwrap_or_default();
    let is_set = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("options")
            && words.next() == Some("nvidia")
            && words.any(|word| word == option)
    };
    let mut paths = host
        .drop_ins(MODPROBE_DIRS.iter().map(ToString::to_string))
        .into_iter();
    paths
        .find(|path| text(path).lines().any(is_set))
        .or_else(|| {
            let line = text(COMMAND_LINE);
            let mut words = line.split_whitespace();
            let is_set = words.any(|word| word.strip_prefix("nvidia.") == Some(option));
            is_set.then(|| COMMAND_LINE.to_owned())
        })
}

/// The channels' major, which may change with each load of the driver.
fn read_major(host: &Host) -> Result<Major, ErrorFacts> {
    let list = host.resolve(PROC_DEVICES);
    read_channel_major(&list)
        .map_err(|error| ErrorFacts::new(host, &list, &error, error.code(), error.hint()))
}

/// The nodes named `channel` and a number.
fn channel_nodes(host: &Host) -> Vec<ChannelNode> {
    let names = host.list(CHANNEL_DIR).into_iter();
    let nodes = names.filter_map(|name| {
        let number = name.strip_prefix("channel")?.parse().ok()?;
        let path = format!("{CHANNEL_DIR}/{name}");
        let found = host.lstat(&path).ok()?;
        Some(ChannelNode {
            path,
            number,
            found,
        })
    });
    nodes.collect()
}

// === impl DriverFileFailure ===

impl DriverFileFailure {
    fn new(host: &Host, path: &str, error: &DriverFileError) -> Self {
        match error {
            DriverFileError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
                Self::Absent
            }
            _ => {
                let path = host.resolve(path);
                let (code, hint) = (error.code(), error.hint());
                Self::Unusable(ErrorFacts::new(host, &path, error, code, hint))
            }
        }
    }
}

// === impl CapabilityFacts ===

impl CapabilityFacts {
    fn read(host: &Host, minor: u32) -> Self {
        let majors = Majors::read(&host.resolve(PROC_DEVICES));
        let node = match host.lstat(&capability_node(minor)) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        Self {
            minor,
            major: majors.and_then(|majors| majors.major_of(CAPABILITY_DRIVER)),
            node,
        }
    }

    /// The path of its device node.
    pub fn node_path(&self) -> String {
        capability_node(self.minor)
    }
}

fn capability_node(minor: u32) -> String {
    format!("/dev/nvidia-caps/nvidia-cap{minor}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_option_is_found_in_effective_files_and_on_the_kernels_command_line() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let host = Host::open(dir.path()).unwrap();
        let option = format!("options nvidia {CREATE_CHANNEL0}\n");
        write("usr/lib/modprobe.d/nvidia.conf", &option);
        let found = option_file(&host, CREATE_CHANNEL0);
        assert_eq!(found.as_deref(), Some("/usr/lib/modprobe.d/nvidia.conf"));
        write("etc/modprobe.d/nvidia.conf", "# none\n");
        assert_eq!(option_file(&host, CREATE_CHANNEL0), None);
        write(
            "proc/cmdline",
            "ro quiet nvidia.NVreg_CreateImexChannel0=1\n",
        );
        let found = option_file(&host, CREATE_CHANNEL0);
        assert_eq!(found.as_deref(), Some("/proc/cmdline"));
    }
}
