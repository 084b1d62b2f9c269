//! `cdi-gen generate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use imex_cdi::{Kind, Major, Permissions, SpecVersion};

use super::channels::Channels;
use super::generate_gpu::GenerateGpu;
use super::shared::{EXIT_CODES, Format, SpecDirs, cdi_name};

// Not doc comments: the driver's names would need backquotes, which a terminal
// shows.
const ABOUT_UID: &str = "\
The node's owner; the default is DeviceFileUID of the driver's params, or else
the container's user";
const ABOUT_GID: &str = "\
The node's group; the default is DeviceFileGID of the driver's params, or else
the container's group";
const ABOUT_MODE: &str = "\
The node's permission bits, in octal; the default is DeviceFileMode of the
driver's params, or else 0666";

/// Writes a CDI spec for IMEX channels or GPUs of this host.
///
/// Without a driver on the host, give the device major: --major 235.
#[derive(Debug, Args)]
#[command(
    after_help = EXIT_CODES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Generate {
    #[command(subcommand)]
    pub(crate) command: Option<GenerateCommand>,
    /// The channels: numbers and ranges such as 0,3-7, or all that the driver
    /// has. Channels isolate jobs from each other: give a container only the channel
    /// that it needs.
    #[arg(long, value_name = "LIST|all", required = true)]
    pub(crate) channels: Option<Channels>,
    /// The major of the channels' nodes; auto takes it from /proc/devices.
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    pub(crate) major: MajorArg,
    /// How a container gets its device node.
    #[arg(long, value_enum, default_value = "mknod")]
    pub(crate) mode: Mode,
    /// The devices' vendor/class.
    #[arg(long, default_value = "nvidia.com/imex-channel", value_parser = cdi_name::<Kind>)]
    pub(crate) kind: Kind,
    /// What the device cgroup allows: any of r, w and m (mknod).
    #[arg(long, default_value = "rw", value_parser = permissions)]
    pub(crate) permissions: Permissions,
    #[arg(long, value_name = "N", help = ABOUT_UID)]
    pub(crate) uid: Option<u32>,
    #[arg(long, value_name = "N", help = ABOUT_GID)]
    pub(crate) gid: Option<u32>,
    #[arg(long, value_name = "MODE", value_parser = file_mode, help = ABOUT_MODE)]
    pub(crate) file_mode: Option<u32>,
    /// The spec's cdiVersion; min is the lowest that supports the fields in use, so that most
    /// runtimes can load the file.
    #[arg(long, value_name = "min|X.Y.Z", default_value = "min")]
    pub(crate) version: VersionArg,
    /// The output format. Files for runtimes should be JSON: a truncated JSON file
    /// is never mistaken for a complete one.
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: Format,
    /// The file to write, atomically and durably; - is stdout. The file's directory must exist. In
    /// a --spec-dir, generate refuses a device that another file already defines.
    #[arg(long, value_name = "PATH", default_value = "-")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
}

/// What else a spec can be for.
#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    // Boxed: its size would be that of every command.
    Gpu(Box<GenerateGpu>),
}

/// A device major, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MajorArg {
    Auto,
    Value(Major),
}

/// A version, or `min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionArg {
    Min,
    Version(SpecVersion),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The runtime creates the device node from major and minor; the host needs no device node. Not
    /// for containers in a user namespace.
    Mknod,
    /// The container gets the host's device node, which must exist when the container starts.
    HostPath,
}

// === impl MajorArg ===

impl FromStr for MajorArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = text.parse::<u32>();
        let number = number.map_err(|_| "expected auto or a number")?;
        let major = Major::new(number).map_err(|error| error.to_string())?;
        Ok(Self::Value(major))
    }
}

// === impl VersionArg ===

impl FromStr for VersionArg {
    type Err = imex_cdi::UnknownVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "min" => Ok(Self::Min),
            _ => text.parse().map(Self::Version),
        }
    }
}

/// Rejects an empty text, which runtimes read as all permissions.
fn permissions(text: &str) -> Result<Permissions, String> {
    if text.is_empty() {
        return Err("the value is empty, and runtimes read an empty value as rwm".to_owned());
    }
    text.parse()
        .map_err(|error: imex_cdi::UnknownPermission| error.to_string())
}

fn file_mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777 && !digits.starts_with('+'))
        .ok_or_else(|| "expected an octal number up to 777".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_mode_is_octal() {
        for text in ["666", "0666", "0o666"] {
            assert_eq!(file_mode(text), Ok(0o666));
        }
        for text in ["", "888", "1777", "+666", "-1", "rw"] {
            assert!(file_mode(text).is_err(), "{text:?}");
        }
    }
}
