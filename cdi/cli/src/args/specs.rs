//! The commands that read CDI specs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use imex_cdi::QualifiedName;
use serde::Serialize;

use super::host::{KubeletRoot, SpecDirs};
use super::pattern::Wanted;
use super::values::{EXIT_CODES, STDIN, cdi_name, file};

/// Lists this host's CDI devices, and whether containers can use them.
///
/// For each device: the file that defines it, whether a container that asks for it
/// gets it, the IMEX channel that it opens, and whether the host's device nodes match.
/// For a claim's device, the ComputeDomain is that of the claim's record in the kubelet
/// plugin's checkpoint. Directories and specs that cannot be loaded, and devices that
/// resolve but cannot be used, are reported on stderr (exit code 1).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct List {
    /// The devices to list: names, kinds (nvidia.com/gpu), or patterns in quotes
    /// ('gpu=*', 'nvidia.com/*=[0-3]'); all by default. Exit code 4 if there is none
    /// of one.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<Wanted>,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// Prints one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows one device, or one spec file, with every edit to a container.
#[derive(Debug, Args)]
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
/// Errors are what every runtime refuses or, with --for, what a given runtime
/// refuses; probable mistakes are warnings. Prints "OK" for each file, or a line per
/// finding (exit code 1).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Validate {
    /// Spec files, directories of spec files, or - for standard input; by default
    /// the host's spec directories.
    #[arg(value_name = "FILE|DIR", value_parser = file())]
    pub(crate) inputs: Vec<PathBuf>,
    /// A runtime that must be able to load the specs: containerd-1.7.0,
    /// containerd-2.1, cri-o-1.24, docker-28.2, podman-4.9.3; as its package has it,
    /// podman-4.9.3+ds1-1; or as kubelet reports it, `containerd://1.7.27`. Repeatable.
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
/// Prints every file that could define the device, names that are nearly right, and
/// the fix (exit code 4 if it does not resolve). If it resolves, its device nodes
/// are compared with the host's (exit code 1 if a container cannot use them).
#[derive(Debug, Args)]
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

// === impl Subject ===

impl FromStr for Subject {
    type Err = std::convert::Infallible;

    /// A device if it has the form of a device's name, otherwise a file; `./NAME`
    /// is always a file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.parse() {
            Ok(name) => Self::Device(name),
            Err(_) if text == "-" => Self::File(STDIN.into()),
            Err(_) => Self::File(text.into()),
        })
    }
}
