//! The commands that look at a host as a whole.

use std::path::PathBuf;

use clap::Args;
use imex_cdi::DEFAULT_DIRS;

use super::{EXIT_CODES, SpecDirs};

/// Says what is wrong with this GPU host, causes first, each with its fix:
/// driver, fabric, IMEX channels, CDI directories and specs, container
/// runtimes, prepared claims.
///
/// Exit code 0 if the host is healthy, 1 with any error or warning. Changes
/// nothing. On this host (--root /) it loads the driver's NVML library and runs
/// container runtimes with --version; on another root it only reads files.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// Asks the host's nvidia-imex, through this socket
    /// (`IMEX_CMD_UNIX_DOMAIN_PATH` of its configuration), whether it is ready:
    /// runs the host's nvidia-imex-ctl.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) imex_socket: Option<PathBuf>,
    /// Prints one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the report, and the files that it is made from, to a tar
    /// archive for a bug report. Its manifest.txt lists them: no runtime
    /// configuration, no kubeconfig, no claim parameters, and specs without the
    /// values of environment variables. Refuses to overwrite a file.
    #[arg(long, value_name = "FILE.tar")]
    pub(crate) bundle: Option<PathBuf>,
}

/// Of a kubelet that was not told another one.
pub(crate) const DEFAULT_KUBELET_ROOT: &str = "/var/lib/kubelet";

/// Where kubelet keeps its state.
#[derive(Debug, Clone, Args)]
pub(crate) struct KubeletRoot {
    /// kubelet's root directory (the plugin's --kubelet-root), below --root.
    #[arg(
        long = "kubelet-root",
        value_name = "DIR",
        default_value = DEFAULT_KUBELET_ROOT
    )]
    pub(crate) path: PathBuf,
}

/// Lists the specs of claims that the node's plugin does not know (exit code
/// 1 if there are any), or removes them.
///
/// Which claims live is in the plugin's checkpoint. If it is absent or
/// damaged, nothing is an orphan unless --live says which claims live.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Gc {
    /// Removes them, under the plugin's lock (pu.lock), so that the plugin may
    /// run meanwhile.
    #[arg(long)]
    pub(crate) remove: bool,
    /// The UID of a claim that lives, in addition to those of the checkpoint.
    /// Repeatable.
    #[arg(long, value_name = "UID")]
    pub(crate) live: Vec<String>,
    /// A directory of claims' specs (the plugin's --cdi-root). Repeatable;
    /// only the usual ones need not exist.
    #[arg(long = "cdi-dir", value_name = "DIR", default_values = DEFAULT_DIRS)]
    pub(crate) dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// The host's root.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Prints one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints what happens to the CDI devices of this host, one JSON object for
/// each event, until it is stopped.
///
/// Begins with an event for everything that there is. The directories are
/// looked at once a second, whatever stands at their paths then: what comes
/// and goes in between is not seen.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    /// Ends after the first look.
    #[arg(long)]
    pub(crate) once: bool,
}
