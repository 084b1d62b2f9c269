//! IMEX channels as the kernel module offers them.
//!
//! From `/proc/devices`, `/proc/driver/nvidia/params`, the capability files below
//! `/proc/driver/nvidia`, and the device nodes in `/dev`.

use std::io::ErrorKind;

use dra_common::error_chain;
use imex_cdi::{
    CHANNEL_DIR, Capability, DRIVER_PARAMS, DriverFileError, DriverParams, HostNode, HostNodes,
    IMEX_MGMT_CAPABILITY, Major, PROC_DEVICES, read_channel_major,
};

use crate::error_facts::ErrorFacts;
use crate::files::{HostFiles, is_absent};
use crate::majors::Majors;

/// The driver of capabilities' device nodes in the device list.
pub(crate) const CAPABILITY_DRIVER: &str = "nvidia-caps";

/// Makes the module create channel 0, open to all (nv-reg.h of NVIDIA's open kernel
/// modules).
const CREATE_CHANNEL0: &str = "NVreg_CreateImexChannel0=1";

/// Where modprobe reads options of modules: `modprobe.d(5)`.
const MODPROBE_DIRS: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];

/// The kernel's command line, from which modprobe takes options, too: `nvidia.OPTION`
/// (`modprobe(8)`).
pub(crate) const COMMAND_LINE: &str = "/proc/cmdline";

/// The channels of a host's driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFacts {
    /// The kernel module's options.
    pub params: Result<DriverParams, DriverFileFailure>,
    /// The file of modprobe, or `/proc/cmdline`, that has the module make channel 0 for all
    /// users when it is loaded next; `None` if there is none.
    pub channel0_option: Option<String>,
    /// The major of the channels' device nodes.
    pub major: Result<Major, ErrorFacts>,
    /// The channels' device nodes that exist on the host, by name. They are only
    /// needed where the runtime does not make them.
    pub nodes: Vec<ChannelNode>,
    /// The capability that nvidia-imex needs to start.
    pub capability: Result<CapabilityFacts, DriverFileFailure>,
}

/// Why a file of the kernel module could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverFileFailure {
    /// It does not exist: the module is not loaded, or does not have it.
    Absent,
    /// It could not be read, or has unknown content.
    Unusable(ErrorFacts),
}

/// A device node below [`CHANNEL_DIR`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelNode {
    /// Its path.
    pub path: String,
    /// The channel's number, from its name.
    pub number: u32,
    /// What there is at the path.
    pub found: HostNode,
}

/// A capability of the driver, and its device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityFacts {
    /// The minor that the driver names.
    pub minor: u32,
    /// The major of capabilities; `None` if the device list has none.
    pub major: Option<i64>,
    /// What there is at [`node_path`](Self::node_path).
    pub node: NodeLookup,
}

/// What there is at the path of a device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeLookup {
    /// This.
    Found(HostNode),
    /// Nothing.
    Absent,
    /// It cannot be examined, for this reason.
    Unreadable(String),
}

// === impl ChannelFacts ===

impl ChannelFacts {
    pub(crate) fn read(files: &HostFiles) -> Self {
        let params = DriverParams::read(files.resolve(DRIVER_PARAMS));
        let capability = Capability::read(files.resolve(IMEX_MGMT_CAPABILITY));
        Self {
            params: params.map_err(|error| DriverFileFailure::new(files, DRIVER_PARAMS, &error)),
            channel0_option: option_file(files, CREATE_CHANNEL0),
            major: read_major(files),
            nodes: channel_nodes(files),
            capability: capability
                .map(|capability| CapabilityFacts::read(files, capability.minor))
                .map_err(|error| DriverFileFailure::new(files, IMEX_MGMT_CAPABILITY, &error)),
        }
    }
}

/// The first file that sets an option of the nvidia module, or else the kernel's command line.
fn option_file(files: &HostFiles, option: &str) -> Option<String> {
    let text = |path: &str| files.text_if_readable(path).unwrap_or_default();
    let is_set = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("options")
            && words.next() == Some("nvidia")
            && words.any(|word| word == option)
    };
    let mut paths = files
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

/// The driver gets another major each time that it is loaded.
fn read_major(files: &HostFiles) -> Result<Major, ErrorFacts> {
    let list = files.resolve(PROC_DEVICES);
    read_channel_major(&list).map_err(|error| ErrorFacts {
        code: error.code(),
        message: files.with_host_names(&error_chain(&error), &list),
        hint: error.hint().to_owned(),
    })
}

/// Names that are not `channel` and a number are not channels.
fn channel_nodes(files: &HostFiles) -> Vec<ChannelNode> {
    let names = files.list(CHANNEL_DIR).into_iter();
    let nodes = names.filter_map(|name| {
        let number = name.strip_prefix("channel")?.parse().ok()?;
        let path = format!("{CHANNEL_DIR}/{name}");
        let found = files.lstat(&path).ok()?;
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
    fn new(files: &HostFiles, path: &str, error: &DriverFileError) -> Self {
        match error {
            DriverFileError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
                Self::Absent
            }
            _ => Self::Unusable(ErrorFacts {
                code: error.code(),
                message: files.with_host_names(&error_chain(error), &files.resolve(path)),
                hint: error.hint().to_owned(),
            }),
        }
    }
}

// === impl CapabilityFacts ===

impl CapabilityFacts {
    fn read(files: &HostFiles, minor: u32) -> Self {
        let majors = Majors::read(&files.resolve(PROC_DEVICES));
        let mut facts = Self {
            minor,
            major: majors.and_then(|majors| majors.major_of(CAPABILITY_DRIVER)),
            node: NodeLookup::Absent,
        };
        facts.node = match files.lstat(&facts.node_path()) {
            Ok(found) => NodeLookup::Found(found),
            Err(error) if is_absent(&error) => NodeLookup::Absent,
            Err(error) => NodeLookup::Unreadable(error.to_string()),
        };
        facts
    }

    /// The path of its device node.
    pub fn node_path(&self) -> String {
        format!("/dev/nvidia-caps/nvidia-cap{}", self.minor)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::root::Root;

    #[test]
    fn an_option_is_in_the_file_that_replaces_others_of_its_name_or_on_the_kernels_command_line() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let files = HostFiles::new(Root::new(dir.path()).unwrap());
        let option = format!("options nvidia {CREATE_CHANNEL0}\n");
        write("usr/lib/modprobe.d/nvidia.conf", &option);
        let found = option_file(&files, CREATE_CHANNEL0);
        assert_eq!(found.as_deref(), Some("/usr/lib/modprobe.d/nvidia.conf"));
        write("etc/modprobe.d/nvidia.conf", "# none\n");
        assert_eq!(option_file(&files, CREATE_CHANNEL0), None);
        write(
            "proc/cmdline",
            "ro quiet nvidia.NVreg_CreateImexChannel0=1\n",
        );
        let found = option_file(&files, CREATE_CHANNEL0);
        assert_eq!(found.as_deref(), Some("/proc/cmdline"));
    }
}
