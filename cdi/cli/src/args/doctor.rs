//! The commands that examine a host as a whole.

use std::path::PathBuf;

use clap::Args;
use host_doctor::DEFAULT_DRIVER_ROOT;

use super::host::{KubeletRoot, SpecDirs};
use super::values::EXIT_CODES;

/// Diagnoses this GPU host: what is wrong, and how to fix it.
///
/// Checks the driver, the fabric, IMEX channels, CDI directories and specs,
/// container runtimes and prepared claims; causes are reported before their
/// consequences.
///
/// Exit code 0 if the host is healthy, 1 with any error or warning. Changes
/// nothing. On this host (--root /) it loads the driver's NVML library and runs
/// container runtimes with --version; below another root it only reads files.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// The directory below which the NVIDIA driver is installed (the chart's
    /// nvidiaDriverRoot), below --root. Below / those of the GPU operator's driver
    /// container, GKE, Bottlerocket, Talos and `NixOS` are found.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DRIVER_ROOT)]
    pub(crate) driver_root: PathBuf,
    /// The socket of the host's nvidia-imex (`IMEX_CMD_UNIX_DOMAIN_PATH` of its
    /// configuration): also asks it whether it is ready, with the host's
    /// nvidia-imex-ctl.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) imex_socket: Option<PathBuf>,
    /// Prints one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the report and the files that it is based on to a tar archive
    /// for a bug report. Its manifest.txt lists them: no runtime configuration, no
    /// kubeconfig, of claims' parameters the ComputeDomain's UID only, and specs without the values of environment
    /// variables. Refuses to overwrite a file.
    #[arg(long, value_name = "FILE.tar")]
    pub(crate) bundle: Option<PathBuf>,
}
