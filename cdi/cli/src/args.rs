//! The command line as clap parses it: no name or path is resolved yet.
//!
//! `hack/cli-docs` compiles this module by its path, to write completions and
//! man pages: it uses nothing else of this crate.

// Explicit paths: rustc searches the modules of a file that is included by path beside that file.
#[path = "args/channels.rs"]
mod channels;
#[path = "args/generate.rs"]
mod generate;
#[path = "args/generate_gpu.rs"]
mod generate_gpu;
#[path = "args/pattern.rs"]
mod pattern;
#[path = "args/shared.rs"]
mod shared;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use host_doctor::{DEFAULT_DRIVER_ROOT, DraDriver};
use imex_cdi::QualifiedName;
use serde::Serialize;

pub(crate) use self::channels::Channels;
pub(crate) use self::generate::{Generate, GenerateCommand, MajorArg, Mode, VersionArg};
pub(crate) use self::generate_gpu::GenerateGpu;
pub(crate) use self::pattern::DeviceSelection;
pub(crate) use self::shared::{Format, KubeletRoot, STDIN, SpecDirs};

use self::shared::{EXIT_CODES, cdi_name, driver, file};

#[derive(Debug, Parser)]
#[command(
    name = "cdi-gen",
    version,
    about = "Debugs CDI devices, IMEX channels and ComputeDomains on a GPU host",
    after_help = EXIT_CODES
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Generate(Generate),
    List(List),
    Show(Show),
    Validate(Validate),
    Why(Why),
    Gpus(Gpus),
    Doctor(Doctor),
    /// Reads the checkpoints of the kubelet plugins: the claims prepared on this node.
    ///
    /// The default FILE is this node's checkpoint, plugins/DRIVER/checkpoint.json below kubelet's root
    /// directory. DRIVER is compute-domain.nvidia.com or gpu.nvidia.com. If the node has checkpoints of
    /// both, both are read.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Runs as an OCI runtime hook that refuses containers with IMEX channels they do not own.
    #[command(subcommand)]
    Hook(HookCommand),
}

/// Lists this host's CDI devices, and shows whether containers can use them.
///
/// Shows each device's spec file and IMEX channel, whether its name resolves to this file, and
/// whether the host's device nodes match. The ComputeDomain of a claim's device comes from the
/// ComputeDomain plugin's checkpoint. Directories and specs that cannot be loaded, and devices that
/// resolve but cannot be used, are reported on stderr (exit code 1).
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct List {
    /// The devices to list: names, kinds (nvidia.com/gpu), or quoted patterns ('gpu=*',
    /// 'nvidia.com/*=[0-3]'); all by default. Exit code 4 if a NAME matches no device.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<DeviceSelection>,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// Prints one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows a device or a spec file, with all its container edits.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Show {
    /// A device (vendor/class=device), or a spec file; - reads standard input.
    #[arg(value_name = "NAME|FILE")]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    /// Prints one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to show.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Device(QualifiedName),
    File(PathBuf),
}

/// Checks CDI specs for errors and probable mistakes.
///
/// An error means that runtimes refuse the file: all of them, or one that --for names. A warning is
/// a probable mistake. Prints "OK" for each file, or a line per finding (exit code 1).
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Validate {
    /// Spec files, directories of spec files, or - for standard input; by default
    /// the host's spec directories.
    #[arg(value_name = "FILE|DIR", value_parser = file())]
    pub(crate) inputs: Vec<PathBuf>,
    /// A runtime that must be able to load the specs: containerd-1.7.0,
    /// containerd-2.1, cri-o-1.24, docker-28.2, podman-4.9.3. Package versions (podman-4.9.3+ds1-1)
    /// and kubelet's form (`containerd://1.7.27`) work too. Repeatable.
    #[arg(long = "for", value_name = "RUNTIME-VERSION")]
    pub(crate) targets: Vec<String>,
    /// The lowest level of findings to report.
    #[arg(long, value_enum, default_value = "warn")]
    pub(crate) level: Level,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    /// Prints one JSON document instead of lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// Probably a mistake.
    Warn,
    /// A runtime refuses it.
    Error,
}

/// Explains why a device resolves, or why it does not.
///
/// Prints every file that could define the device, similar names, and the fix (exit code 4 if it
/// does not resolve). If it resolves, its device nodes are compared with the host's (exit code 1 if
/// a container cannot use them).
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Why {
    /// The device, vendor/class=device.
    #[arg(value_name = "NAME", value_parser = cdi_name::<QualifiedName>)]
    pub(crate) name: QualifiedName,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    /// Prints one JSON document instead of lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Diagnoses this GPU host: what is wrong, and how to fix it.
///
/// Checks the driver, the fabric, IMEX channels, CDI directories and specs,
/// container runtimes and prepared claims; causes are reported before their
/// consequences.
///
/// Exit code 0 if the host is healthy, 1 with any error or warning. Changes
/// nothing. Queries kubelet's container runtime over CRI, and on this host (--root /)
/// loads the driver's NVML library.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// The NVIDIA driver's root directory (the chart's nvidiaDriverRoot), below --root. With /, the
    /// driver roots of the GPU operator's driver container, GKE, Bottlerocket, Talos and `NixOS`
    /// are found.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DRIVER_ROOT)]
    pub(crate) driver_root: PathBuf,
    /// The socket of the host's nvidia-imex (`IMEX_CMD_UNIX_DOMAIN_PATH` of its
    /// configuration). If given, doctor also asks the host's nvidia-imex-ctl whether
    /// nvidia-imex is ready.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) imex_socket: Option<PathBuf>,
    /// Prints one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the report and the files that it is based on to a tar archive
    /// for a bug report. The archive's manifest.txt lists these files. The archive has no runtime
    /// configuration, no kubeconfig and no values of environment variables. The only
    /// claim parameter in it is the ComputeDomain's UID. Never overwrites a file.
    #[arg(long, value_name = "FILE.tar")]
    pub(crate) bundle: Option<PathBuf>,
}

/// Lists this host's GPUs and their problems.
///
/// Combines what NVML, /proc/driver/nvidia and sysfs report. NVML is called in a process of its own:
/// a call that hangs is given up after 10 s, and the other GPUs are still listed.
/// Exit code 1 if a GPU or the driver has a problem.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Gpus {
    /// The host's root directory: /proc and /sys are read below it. With another root than /, NVML is
    /// not called.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// The NVIDIA driver's root directory (the chart's nvidiaDriverRoot).
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DRIVER_ROOT)]
    pub(crate) driver_root: PathBuf,
    /// Prints one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Prints the claims; if the file is damaged, the claims that are still readable (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Show {
        /// The checkpoint file; - reads standard input. The default is this node's checkpoint.
        #[arg(value_parser = file(), conflicts_with_all = ["path", "root", "driver"])]
        file: Option<PathBuf>,
        #[command(flatten)]
        node: NodeCheckpoint,
        /// Prints one JSON document instead of a table. Needs --driver if the node has checkpoints of
        /// both drivers.
        #[arg(long)]
        json: bool,
    },
    /// Checks that files are intact: prints "OK", or "CORRUPT" and what is wrong
    /// (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Verify {
        /// The checkpoint files; - reads standard input. The default is this node's checkpoint.
        /// Every file is checked; if a file cannot be read, the exit code is 3.
        #[arg(value_name = "FILE", value_parser = file(), conflicts_with_all = ["path", "root", "driver"])]
        files: Vec<PathBuf>,
        /// Prints the bytes that the plugin would write for the claims of one file, instead of a
        /// verdict: `verify --canonical FILE | cmp - FILE`. Never overwrite FILE with these bytes
        /// while a plugin runs: claims that the plugin prepares meanwhile would be lost.
        #[arg(long)]
        canonical: bool,
        #[command(flatten)]
        node: NodeCheckpoint,
    },
}

/// Where the node's checkpoint is.
#[derive(Debug, ClapArgs)]
pub(crate) struct NodeCheckpoint {
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// The host's root directory; cannot be used with FILE.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// The driver whose checkpoint is read; cannot be used with FILE. By default, every driver with a
    /// checkpoint on the node.
    #[arg(long, value_name = "DRIVER", value_parser = driver())]
    pub(crate) driver: Option<DraDriver>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    #[command(name = "createRuntime")]
    CreateRuntime(CreateRuntime),
}

/// Refuses a container that requests an IMEX channel it does not own.
///
/// For runtimes with OCI hooks but without NRI. Reads the container's state from standard input, as
/// OCI runtimes write it, and config.json of its bundle. Changes nothing and prints nothing on
/// stdout. The reason for a refusal goes to stderr, which runtimes show.
///
/// A pod owns a channel if one of its prepared claims opens it. A container outside pods may use
/// the channels in --allow.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CreateRuntime {
    /// Channels for containers outside pods: numbers and ranges (0,3-7), or all.
    #[arg(long, value_name = "CHANNELS")]
    pub(crate) allow: Option<Channels>,
    /// A namespace whose pods are not checked, such as the GPU operator's. Repeatable.
    #[arg(long = "exempt-namespace", value_name = "NAMESPACE")]
    pub(crate) exempt_namespaces: Vec<String>,
    /// Reports on stderr what it would refuse, and lets every container start.
    #[arg(long)]
    pub(crate) warn: bool,
    /// Seconds until the hook gives up and refuses the container. The runtime's own timeout must be
    /// longer.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
}

// === impl Subject ===

impl FromStr for Subject {
    type Err = std::convert::Infallible;

    /// Parses a device if the text has the form of a device name, otherwise a file; `./NAME` is
    /// always a file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.parse() {
            Ok(name) => Self::Device(name),
            Err(_) if text == "-" => Self::File(STDIN.into()),
            Err(_) => Self::File(text.into()),
        })
    }
}

/// 1 to 60.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|number| (1..=60).contains(number));
    let number = number.ok_or_else(|| format!("{text:?} is not a number of seconds from 1 to 60"));
    number.map(Duration::from_secs)
}
