//! The device nodes that a container needs for a GPU, by number: the host needs none of them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dra_common::{ReadError, read_bounded};
use nvml_session::MigDevice;

use crate::facts::{GpuFacts, HostFacts};

/// A character device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// The path, below `/dev`.
    pub path: String,
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
}

/// Why a node has no number.
#[derive(Debug)]
#[non_exhaustive]
pub enum MissingNode {
    /// No driver with one of these names has a major.
    NoMajor {
        /// The node.
        path: String,
        /// The names in `/proc/devices`.
        driver: &'static str,
    },
    /// The GPU has no minor.
    NoMinor {
        /// The reason, if it cannot be read.
        reason: Option<String>,
    },
    /// The file of a capability cannot be read, or has no minor.
    NoCapability {
        /// The file.
        file: PathBuf,
        /// Why it cannot be read; `None` if it has no minor.
        source: Option<io::Error>,
    },
}

/// The names of the driver's majors: newer, then older drivers.
const GPU: [&str; 2] = ["nvidia", "nvidia-frontend"];
const CONTROL: [&str; 3] = ["nvidiactl", "nvidia", "nvidia-frontend"];
const MODESET: [&str; 3] = ["nvidia-modeset", "nvidia", "nvidia-frontend"];
const UVM: [&str; 1] = ["nvidia-uvm"];
const CAPABILITIES: [&str; 1] = ["nvidia-caps"];

const CONTROL_MINOR: u32 = 255;
const MODESET_MINOR: u32 = 254;
const UVM_MINOR: u32 = 0;
const UVM_TOOLS_MINOR: u32 = 1;

/// The limit of a capability's file in bytes: far more than it has.
const MAX_CAPABILITY: u64 = 64 << 10;

/// The nodes that every container with a GPU needs.
///
/// # Errors
///
/// [`MissingNode::NoMajor`] if a kernel module is not loaded.
pub fn common_nodes(host: &HostFacts) -> Result<Vec<Node>, MissingNode> {
    [
        ("/dev/nvidia-modeset", &MODESET[..], MODESET_MINOR),
        ("/dev/nvidia-uvm", &UVM[..], UVM_MINOR),
        ("/dev/nvidia-uvm-tools", &UVM[..], UVM_TOOLS_MINOR),
        ("/dev/nvidiactl", &CONTROL[..], CONTROL_MINOR),
    ]
    .into_iter()
    .map(|(path, drivers, minor)| node(host, path.to_owned(), drivers, minor))
    .collect()
}

/// The nodes of one GPU: its own and those of graphics.
///
/// # Errors
///
/// [`MissingNode::NoMinor`] or [`MissingNode::NoMajor`].
pub fn gpu_nodes(host: &HostFacts, gpu: &GpuFacts) -> Result<Vec<Node>, MissingNode> {
    let own = own_node(host, minor_of(gpu)?)?;
    let graphics = gpu.drm.known().into_iter().flatten().map(|node| Node {
        path: format!("/dev/dri/{}", node.name),
        major: node.major,
        minor: node.minor,
    });
    Ok([own].into_iter().chain(graphics).collect())
}

/// The nodes of a MIG device: that of its GPU, and those of its two capabilities. `proc` is `/proc` or a directory in
/// its place.
///
/// # Errors
///
/// Any [`MissingNode`].
pub fn mig_nodes(
    host: &HostFacts,
    proc: &Path,
    gpu: &GpuFacts,
    device: &MigDevice,
) -> Result<Vec<Node>, MissingNode> {
    let minor = minor_of(gpu)?;
    let instance = proc.join(format!(
        "driver/nvidia/capabilities/gpu{minor}/mig/gi{}",
        device.gpu_instance.id
    ));
    let compute = format!("ci{}/access", device.compute_instance);
    let capabilities = [instance.join("access"), instance.join(compute)];
    let capabilities = capabilities.iter().map(|file| {
        let minor = capability_minor(file)?;
        let path = format!("/dev/nvidia-caps/nvidia-cap{minor}");
        node(host, path, &CAPABILITIES, minor)
    });
    [own_node(host, minor)]
        .into_iter()
        .chain(capabilities)
        .collect()
}

fn minor_of(gpu: &GpuFacts) -> Result<u32, MissingNode> {
    let minor = gpu.minor.known().copied();
    minor.ok_or_else(|| MissingNode::NoMinor {
        reason: gpu.minor.failure().map(ToString::to_string),
    })
}

/// The node of the GPU itself.
fn own_node(host: &HostFacts, minor: u32) -> Result<Node, MissingNode> {
    node(host, format!("/dev/nvidia{minor}"), &GPU, minor)
}

fn node(
    host: &HostFacts,
    path: String,
    drivers: &[&'static str],
    minor: u32,
) -> Result<Node, MissingNode> {
    let majors = host.majors.known();
    let major = drivers.iter().find_map(|driver| majors?.get(*driver));
    match major {
        Some(major) => Ok(Node {
            path,
            major: *major,
            minor,
        }),
        None => Err(MissingNode::NoMajor {
            path,
            driver: drivers.first().copied().unwrap_or_default(),
        }),
    }
}

/// The number in the line `DeviceFileMinor: N` of a capability's file.
fn capability_minor(file: &Path) -> Result<u32, MissingNode> {
    let missing = |source| MissingNode::NoCapability {
        file: file.to_owned(),
        source,
    };
    let bytes = read_bounded(file, MAX_CAPABILITY).map_err(|error| {
        missing(Some(match error {
            ReadError::Io(error) => error,
            other => io::Error::other(other),
        }))
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let minor = text
        .lines()
        .find_map(|line| line.strip_prefix("DeviceFileMinor:")?.trim().parse().ok());
    minor.ok_or_else(|| missing(None))
}

// === impl MissingNode ===

impl fmt::Display for MissingNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMajor { path, driver } => {
                write!(f, "{path} has no number: /proc/devices has no {driver}")
            }
            Self::NoMinor { reason: None } => f.write_str("the GPU has no minor number"),
            Self::NoMinor {
                reason: Some(reason),
            } => write!(f, "the GPU has no minor number: {reason}"),
            Self::NoCapability { file, source: None } => {
                write!(f, "{} has no DeviceFileMinor", file.display())
            }
            Self::NoCapability { file, .. } => write!(f, "cannot read {}", file.display()),
        }
    }
}

impl std::error::Error for MissingNode {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoCapability {
                source: Some(source),
                ..
            } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::error::Error as _;
    use std::fs;

    use nvml_session::{Fact, GpuInstance, Placement};

    use super::*;
    use crate::facts::DrmNode;

    fn host(majors: &[(&str, u32)]) -> HostFacts {
        let majors = majors
            .iter()
            .map(|(name, major)| ((*name).to_owned(), *major));
        HostFacts {
            majors: Fact::Known(majors.collect::<BTreeMap<_, _>>()),
            ..HostFacts::default()
        }
    }

    fn shown(nodes: &[Node]) -> Vec<String> {
        let text = |it: &Node| format!("{} {}:{}", it.path, it.major, it.minor);
        nodes.iter().map(text).collect()
    }

    const COMMON: [&str; 4] = [
        "/dev/nvidia-modeset 195:254",
        "/dev/nvidia-uvm 507:0",
        "/dev/nvidia-uvm-tools 507:1",
        "/dev/nvidiactl 195:255",
    ];

    #[test]
    fn the_common_nodes_have_the_numbers_of_newer_and_older_drivers() {
        let newer = [
            ("nvidia", 195),
            ("nvidia-modeset", 195),
            ("nvidiactl", 195),
            ("nvidia-uvm", 507),
        ];
        let older = [("nvidia-frontend", 195), ("nvidia-uvm", 507)];
        for majors in [&newer[..], &older[..]] {
            assert_eq!(shown(&common_nodes(&host(majors)).unwrap()), COMMON);
        }
    }

    #[test]
    fn without_a_module_the_missing_node_is_named() {
        let error = common_nodes(&host(&[("nvidia", 195)])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/dev/nvidia-uvm has no number: /proc/devices has no nvidia-uvm"
        );
        assert!(common_nodes(&HostFacts::default()).is_err());
    }

    #[test]
    fn a_gpu_has_its_node_and_those_of_graphics() {
        let drm = |name: &str, minor| DrmNode {
            name: name.to_owned(),
            major: 226,
            minor,
        };
        let gpu = GpuFacts {
            minor: Fact::Known(3),
            drm: Fact::Known(vec![drm("card1", 1), drm("renderD129", 129)]),
            ..GpuFacts::default()
        };
        let nodes = gpu_nodes(&host(&[("nvidia", 195)]), &gpu).unwrap();
        let expected = [
            "/dev/nvidia3 195:3",
            "/dev/dri/card1 226:1",
            "/dev/dri/renderD129 226:129",
        ];
        assert_eq!(shown(&nodes), expected);
        let error = gpu_nodes(&host(&[("nvidia", 195)]), &GpuFacts::default()).unwrap_err();
        assert_eq!(error.to_string(), "the GPU has no minor number");
    }

    #[test]
    fn a_mig_device_has_its_gpus_node_and_the_capabilities_of_both_its_instances() {
        let dir = tempfile::tempdir().unwrap();
        let device = MigDevice {
            uuid: "MIG-1".to_owned(),
            gpu_instance: GpuInstance {
                id: 7,
                profile: 19,
                placement: Placement { start: 0, size: 1 },
            },
            compute_instance: 0,
            compute_profile: 0,
        };
        let drm = DrmNode {
            name: "card0".to_owned(),
            major: 226,
            minor: 0,
        };
        let gpu = GpuFacts {
            minor: Fact::Known(2),
            drm: Fact::Known(vec![drm]),
            ..GpuFacts::default()
        };
        let host = host(&[("nvidia", 195), ("nvidia-caps", 234)]);
        let missing = mig_nodes(&host, dir.path(), &gpu, &device).unwrap_err();
        assert!(
            missing.to_string().ends_with("gpu2/mig/gi7/access"),
            "{missing}"
        );

        let instance = dir.path().join("driver/nvidia/capabilities/gpu2/mig/gi7");
        fs::create_dir_all(instance.join("ci0")).unwrap();
        let lines = |minor| format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n");
        fs::write(instance.join("access"), lines(66)).unwrap();
        fs::write(instance.join("ci0/access"), lines(67)).unwrap();
        let nodes = mig_nodes(&host, dir.path(), &gpu, &device).unwrap();
        let expected = [
            "/dev/nvidia2 195:2",
            "/dev/nvidia-caps/nvidia-cap66 234:66",
            "/dev/nvidia-caps/nvidia-cap67 234:67",
        ];
        assert_eq!(shown(&nodes), expected);

        fs::write(instance.join("access"), "DeviceFileMode: 292\n").unwrap();
        let malformed = mig_nodes(&host, dir.path(), &gpu, &device).unwrap_err();
        assert!(
            malformed
                .to_string()
                .ends_with("access has no DeviceFileMinor")
        );

        // An endless file must not fill the memory.
        let padding = " ".repeat(64 << 10);
        fs::write(instance.join("access"), padding + &lines(66)).unwrap();
        let long = mig_nodes(&host, dir.path(), &gpu, &device).unwrap_err();
        let reason = long.source().unwrap().to_string();
        assert_eq!(reason, "it is longer than 65536 bytes");
    }
}
