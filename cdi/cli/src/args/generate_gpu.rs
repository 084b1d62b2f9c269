//! `cdi-gen generate gpu`.

use std::path::PathBuf;

use clap::Args;
use host_doctor::DEFAULT_DRIVER_ROOT;
use imex_cdi::Kind;

use super::shared::{EXIT_CODES, Format, SpecDirs, cdi_name};

/// Where the hook program is expected.
const DEFAULT_HOOK: &str = "/usr/local/bin/nvidia-cdi-hook";

/// Writes a CDI spec for this host's GPUs and MIG devices.
///
/// The devices are each GPU by NVML's index and by UUID, each MIG device as GPU:INDEX and by UUID,
/// and all. Containers also get the driver's libraries, programs and sockets. Generate the spec
/// again after an update of the driver, a change of MIG devices, and a reboot.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct GenerateGpu {
    /// The NVIDIA driver's root directory, below --root. With /, the driver roots of the GPU
    /// operator's driver container and of GKE are found.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DRIVER_ROOT)]
    pub(crate) driver_root: PathBuf,
    /// The program nvidia-cdi-hook on the host, which prepares the container's root.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_HOOK)]
    pub(crate) hook: PathBuf,
    /// The devices' vendor/class.
    #[arg(long, default_value = "nvidia.com/gpu", value_parser = cdi_name::<Kind>)]
    pub(crate) kind: Kind,
    /// The output format.
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: Format,
    /// The file to write, atomically and durably; - is stdout. The file's directory must exist.
    #[arg(long, value_name = "PATH", default_value = "-")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
}
