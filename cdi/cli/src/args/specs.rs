//! The commands that read CDI specs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use imex_cdi::{DEFAULT_DIRS, QualifiedName};
use serde::Serialize;

use super::{EXIT_CODES, file, named};

/// Where a host's CDI specs are.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpecDirs {
    /// A directory of CDI specs, lowest priority first.
    #[arg(long = "spec-dir", value_name = "DIR", default_values = DEFAULT_DIRS)]
    pub(crate) dirs: Vec<PathBuf>,
    /// The host's root: spec directories, /dev and /proc are looked up below
    /// it, and links are followed within it.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// Lists the CDI devices of this host: which file each is from, whether a
/// container that asks for it gets it, and whether the host's nodes agree.
///
/// What hides devices, or keeps a container from one that resolves, is told on
/// stderr (exit code 1).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    /// Prints one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows one device, or one spec file, with every edit that a container gets.
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

/// What `show` is asked for.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Device(QualifiedName),
    File(PathBuf),
}

/// Checks CDI specs: what every runtime refuses (errors), what is probably a
/// mistake (warnings), and, with --for, what a runtime of that version refuses.
///
/// Says "OK" or a line per finding; any finding is exit code 1.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Validate {
    /// Spec files, directories of them, or - for standard input; without any,
    /// the host's spec directories.
    #[arg(value_name = "FILE|DIR", value_parser = file())]
    pub(crate) inputs: Vec<PathBuf>,
    /// A runtime that must be able to load them: containerd-1.7.0,
    /// containerd-2.1, podman-4.9.3, cri-o-1.34, or as kubelet reports it,
    /// `containerd://1.7.27`. Repeatable.
    #[arg(long = "for", value_name = "RUNTIME-VERSION")]
    pub(crate) targets: Vec<String>,
    /// The lowest level of findings that count.
    #[arg(long, value_enum, default_value = "warn")]
    pub(crate) level: Level,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    /// Prints one JSON document instead of lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// Probably a mistake.
    Warn,
    /// A runtime refuses it.
    Error,
}

/// Compares two CDI specs, or two OCI configs (config.json), by what they
/// mean: order counts only where it changes something.
///
/// Exit code 0 if they mean the same, 1 if not, 3 if one cannot be compared.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Diff {
    /// The old one; - reads standard input.
    #[arg(value_name = "A", value_parser = file())]
    pub(crate) old: PathBuf,
    /// The new one; - reads standard input.
    #[arg(value_name = "B", value_parser = file())]
    pub(crate) new: PathBuf,
    /// Prints one JSON document instead of lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Gives the container of an OCI config CDI devices, as a runtime does.
///
/// All or nothing: if a device does not resolve (exit code 4), every such name
/// is told with its reason, and nothing is written. What the edits do not
/// concern stays as it is, unknown fields included.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag that may be typed or not"
)]
pub(crate) struct Inject {
    /// The bundle's config.json; - reads standard input.
    #[arg(value_name = "CONFIG", value_parser = file())]
    pub(crate) config: PathBuf,
    /// A device to inject, vendor/class=device. Repeatable; the order counts.
    #[arg(short, long = "device", value_name = "NAME", required = true, value_parser = named::<QualifiedName>)]
    pub(crate) devices: Vec<QualifiedName>,
    /// Replaces CONFIG, in one durable step, instead of writing to stdout.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) in_place: bool,
    /// Keeps the old CONFIG beside it as CONFIG.bak, or CONFIG.bak.1 and so on
    /// if there is another backup, which stays.
    #[arg(long, requires = "in_place")]
    pub(crate) backup: bool,
    /// Prints what would change instead of the result.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Tells on stderr where each edit comes from (on stdout with --dry-run).
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
}

/// Says why a device resolves, or why it does not: each file that could define
/// it, names that are nearly right, and the fix (exit code 4 if it does not).
///
/// If it resolves, its nodes are held against the host (exit code 1 if a
/// container cannot have them).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Why {
    /// The device, vendor/class=device.
    #[arg(value_name = "NAME", value_parser = named::<QualifiedName>)]
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

    /// What is no device's name is a file's; a file of such a name is reached
    /// as `./NAME`.
    fn from_str(typed: &str) -> Result<Self, Self::Err> {
        Ok(match typed.parse() {
            Ok(name) => Self::Device(name),
            Err(_) if typed == "-" => Self::File(super::STDIN.into()),
            Err(_) => Self::File(typed.into()),
        })
    }
}
